"""A real `agh serve` of the test's home, and a small client for it."""

from __future__ import annotations

import http.client
import json
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from tests.support.live import Live
from tests.support.wait import PATIENCE


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Return the code of the error."""
        return str(self.json["error"]["code"])


class Frame(NamedTuple):
    id: str
    event: str
    data: Any


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


class Server:
    def __init__(self, process: subprocess.Popen[bytes], address: str, token: str) -> None:
        self.process, self.address, self.token = process, address, token

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = "", **headers: str
    ) -> Answer:
        with closing(self._request(method, path, body, token, headers)) as connection:
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def get(self, path: str, status: int = 200, **headers: str) -> Any:
        answer = self.ask("GET", path, **headers)
        assert answer.status == status, answer
        return answer.json

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.status == status, answer
        return answer.json

    @contextmanager
    def stream(
        self, path: str, method: str = "GET", body: Any = None, **headers: str
    ) -> Iterator[Iterator[Frame]]:
        """Yield the events of a stream as they come. Waiting for one has a limit."""
        with closing(self._request(method, path, body, "", headers)) as connection:
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield _frames(response)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def _request(
        self, method: str, path: str, body: Any, token: str | None, headers: dict[str, str]
    ) -> http.client.HTTPConnection:
        if self.address.startswith("unix:"):
            connection: http.client.HTTPConnection = _UnixConnection(self.address.removeprefix("unix:"))
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent.setdefault("authorization", f"Bearer {token or self.token}")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, sent)
        return connection


def _frames(response: http.client.HTTPResponse) -> Iterator[Frame]:
    fields: dict[str, str] = {}
    while line := response.readline():
        text = line.decode().rstrip("\n")
        if not text:
            if "data" in fields:
                data = fields["data"]
                value = json.loads(data) if data.startswith(("{", "[{")) else data
                yield Frame(fields.get("id", ""), fields.get("event", ""), value)
            fields = {}
        else:
            name, _, value = text.partition(": ")
            fields[name] = value


def serve(live: Live, *options: object, **settings: Any) -> Server:
    """Start the server and wait until it says that it listens; the fixture `live` ends it at the latest."""
    if "--socket" not in options and "--port" not in options:
        options = ("--port", "0", *options)
    process = live.start("serve", *options, **settings)
    assert process.stdout is not None and process.stderr is not None
    ready = select.select([process.stdout], [], [], PATIENCE)[0]
    line = process.stdout.readline().decode() if ready else ""
    if not line.startswith("listening on "):
        process.kill()
        raise AssertionError(f"it does not listen: {line!r} {process.stderr.read().decode()!r}")
    token = live.home / "serve.token"
    text = token.read_text().strip() if token.exists() else "none"
    return Server(process, line.removeprefix("listening on ").strip(), text)
