"""A client on the web: its connection, in threads of its own, and which stream each of its messages goes to.

Over WebSocket everything is one stream. Over HTTP there is one stream for the connection and one for each
session. A session that the client has created or has opened a stream for has its messages there. Any other
one has them in the stream of the connection, and keeps that, so that they stay in order.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import orjson

from agh_acp.connection import Connection, Options
from agh_acp.server import finish, take_line
from agh_acp.web.outbox import Outbox
from agh_acp.wire import Message, Wire

OnAnswer = Callable[[bytes], None]


class Peer:
    """One client. It is made in the event loop; what it sends comes from threads."""

    def __init__(self, options: Options, *, has_session_streams: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self.outbox = Outbox(self._loop)
        self.is_closed = False
        self._has_session_streams = has_session_streams
        self._outboxes: dict[str, Outbox] = {}  # where the messages of a session go, by its id
        self._requests: dict[str, str] = {}  # sessions of the requests that wait for an answer
        self._on_answer: dict[str, OnAnswer] = {}
        self._lock = threading.Lock()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._connection = Connection(Wire(self._send), options)
        threading.Thread(target=self._work, daemon=True).start()

    def take(self, line: bytes, message: Message | None = None, on_answer: OnAnswer | None = None) -> None:
        """Take what the client sent; `message` is the same, parsed. `on_answer` gets the answer to it."""
        if message is not None and "method" in message and "id" in message:
            key, session_id = repr(message["id"]), session_in(message.get("params"))
            with self._lock:
                if on_answer is not None:
                    self._on_answer[key] = on_answer
                elif session_id is not None:
                    self._requests[key] = session_id
        self._lines.put(line)

    def open_session(self, session_id: str) -> Outbox:
        """Return the stream of a session; an empty one if its messages go elsewhere."""
        with self._lock:
            outbox = self._outboxes.setdefault(session_id, Outbox(self._loop))
            return outbox if outbox is not self.outbox else Outbox(self._loop)

    def close(self) -> None:
        """End the connection. What the client asked for before is still done, and its sessions go on."""
        if self.is_closed:
            return
        self.is_closed = True
        with self._lock:
            outboxes = [self.outbox, *self._outboxes.values()]
        for outbox in outboxes:
            outbox.close()
        self._lines.put(None)

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            take_line(self._connection, line)
        finish(self._connection)

    def _send(self, messages: list[Message]) -> None:
        """Put messages into their streams. Those that follow each other in a stream are put in together."""
        outbox, batch = self.outbox, list[bytes]()
        for message in messages:
            data = orjson.dumps(message)
            target = self._route(message, data)
            if target is None:
                continue
            if target is not outbox and batch:
                outbox.put(batch)
                batch = list[bytes]()
            outbox = target
            batch.append(data)
        if batch:
            outbox.put(batch)

    def _route(self, message: Message, data: bytes) -> Outbox | None:
        """Return the stream of a message; None if it has gone to whoever waits for it."""
        with self._lock:
            if "method" in message:
                return self._outbox_of(session_in(message.get("params")))
            key = repr(message.get("id"))
            if key in self._on_answer:
                self._loop.call_soon_threadsafe(self._on_answer.pop(key), data)
                return None
            session_id = self._requests.pop(key, None)
            created = session_in(message.get("result"))
            if created is not None and self._has_session_streams:
                self._outboxes.setdefault(created, Outbox(self._loop))
                return self.outbox
            return self._outbox_of(session_id)

    def _outbox_of(self, session_id: str | None) -> Outbox:
        if session_id is None or not self._has_session_streams:
            return self.outbox
        return self._outboxes.setdefault(session_id, self.outbox)


def session_in(value: Any) -> str | None:
    """Return the session that parameters or a result name; None if they name none."""
    session_id = value.get("sessionId") if isinstance(value, dict) else None
    return session_id if isinstance(session_id, str) else None
