"""JSON-RPC with the client, over any transport: what is sent, and who waits for which answer.

Promises: messages of one call are sent without another in between, from any thread. A client that is gone is
no failure: what is sent to it is dropped.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

Message = dict[str, Any]
OnReply = Callable[[Message], None]
Sink = Callable[[list[Message]], None]  # sends messages in order; called by several threads


class Wire:
    """The connection with the client."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._last_id = 0
        self._waiting: dict[int, OnReply] = {}

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages, all of them without another in between."""
        self._sink([{"jsonrpc": "2.0", **message} for message in messages])

    def reply(self, request_id: Any, result: Any) -> None:
        self.send([{"id": request_id, "result": result}])

    def refuse(self, request_id: Any, error: Message) -> None:
        self.send([{"id": request_id, "error": error}])

    def notify(self, method: str, params: Any) -> None:
        self.send([{"method": method, "params": params}])

    def request(self, method: str, params: Any, on_reply: OnReply) -> int:
        """Send a request and return its id; `on_reply` gets the whole answer, if there ever is one."""
        with self._lock:
            self._last_id += 1
            request_id = self._last_id
            self._waiting[request_id] = on_reply
        self.send([{"id": request_id, "method": method, "params": params}])
        return request_id

    def withdraw(self, request_id: int) -> None:
        """Take back a request that needs no answer any more."""
        if self._waiting.pop(request_id, None) is not None:
            self.notify("$/cancel_request", {"requestId": request_id})

    def awaits(self, request_id: Any) -> bool:
        """Tell whether a request waits for its answer: some clients leave out a result that is null."""
        return type(request_id) is int and request_id in self._waiting

    def deliver(self, answer: Message) -> None:
        """Hand an answer to whoever waits for it."""
        request_id = answer.get("id")
        on_reply = self._waiting.pop(request_id, None) if type(request_id) is int else None
        if on_reply is not None:
            on_reply(answer)


class Pipe:
    """Messages on two descriptors, each in a line. A line that has no end is not a message."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._lock = threading.Lock()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that come from the client, until it closes its end."""
        with open(self._source, "rb", closefd=False) as stream:
            for line in stream:
                if line.endswith(b"\n") and line.strip():
                    yield line

    def send(self, messages: list[Message]) -> None:
        """Send messages."""
        view = memoryview(b"".join(orjson.dumps(message) + b"\n" for message in messages))
        with self._lock:
            try:
                while view:
                    view = view[os.write(self._sink, view) :]
            except OSError:
                pass  # the client is gone; its sessions go on
