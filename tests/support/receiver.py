"""A real HTTP server on loopback that records what it is sent, as a webhook or an ntfy server gets it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.wait import wait_until


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    content: dict[str, Any]


class Receiver:
    """What was received so far. While `answering` is not set, requests are recorded and not answered."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.status = 200
        self.location: str | None = None  # where a redirect leads
        self.answering = threading.Event()
        self.answering.set()
        self.url = ""

    def next(self, number: int = 1) -> Received:
        """Wait for a request, the first unless another is named, and return it."""
        wait_until(lambda: len(self.received) >= number, what="a notification")
        return self.received[number - 1]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run the server; yield what it has received."""
    record = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            record.received.append(Received(self.path, dict(self.headers), content))
            record.answering.wait(30)
            self.send_response(record.status)
            if record.location:
                self.send_header("Location", record.location)
            self.end_headers()

        def do_GET(self) -> None:  # as a redirected POST becomes
            record.received.append(Received(self.path, dict(self.headers), {}))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:  # the sender gave up
                pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    record.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield record
    finally:
        record.answering.set()
        server.shutdown()
        thread.join(20)
        server.server_close()
