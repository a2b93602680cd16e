"""`/acp` of `agh serve`: ACP over WebSocket and over Streamable HTTP, as an ASGI application.

A WebSocket is a connection; it ends with the socket. Over HTTP, a POST of `initialize` makes a connection,
whose id the other requests name. A GET is a stream of server-sent events, of the connection or of a session.
Its events have numbers: a client that asks for those after `Last-Event-ID` gets each of them once. A client
that was away for longer connects again and loads its sessions, which shows everything, from the log.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import orjson

from agh.adapters.web import Message, Receive, Send
from agh_acp.connection import Options
from agh_acp.web.outbox import Outbox
from agh_acp.web.peer import Peer

MOST_PEERS = 256
MOST_BODY = 32 << 20
ANSWER_LIMIT = 30.0  # seconds for `initialize`
KEEP_ALIVE = 15.0  # seconds
IDLE_LIMIT = 300.0  # seconds without a request or a stream, after which a connection ends
CONNECTION_ID, SESSION_ID = b"acp-connection-id", b"acp-session-id"
GOING_AWAY = 1001


class Refused(Exception):
    """An HTTP status and what it is about."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Application:
    """The connections of all clients."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}
        self._streams: dict[str, int] = {}  # how many are open, by the ids of their connections
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        try:
            await self._answer(scope, receive, send)
        except Refused as refused:
            await _respond(send, refused.status, orjson.dumps({"error": str(refused)}))

    def close(self) -> None:
        """End all connections."""
        for connection_id in list(self._peers):
            self._end(connection_id)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        method = scope["method"]
        if method == "POST":
            await self._take_post(scope, headers, receive, send)
        elif method == "GET":
            await self._stream(headers, receive, send)
        elif method == "DELETE":
            connection_id, _ = self._find(headers)
            self._end(connection_id)
            await _respond(send, 202)
        else:
            raise Refused(405, f"{method} is not allowed; use POST, GET or DELETE")

    # WebSocket.

    async def _serve_socket(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        if len(self._peers) >= MOST_PEERS:
            await send({"type": "websocket.close", "code": 1013, "reason": "too many connections"})
            return
        connection_id, peer = self._start(scope)
        await send({"type": "websocket.accept", "headers": [(CONNECTION_ID, connection_id.encode())]})
        sender = asyncio.create_task(_send_frames(peer.outbox, send))
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                data = message.get("bytes") or (message.get("text") or "").encode()
                if data.strip():
                    peer.take(data)
        finally:
            self._end(connection_id)
            sender.cancel()
            with suppress(asyncio.CancelledError):
                await sender

    # Streamable HTTP.

    async def _take_post(
        self, scope: Message, headers: Mapping[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        if not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            raise Refused(415, "the content type must be application/json")
        body = await _read_body(receive)
        try:
            message = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise Refused(400, "the body is not JSON") from None
        if isinstance(message, list):
            raise Refused(501, "batches are not supported")
        if not isinstance(message, dict):
            raise Refused(400, "a message must be an object")
        if message.get("method") == "initialize" and "id" in message and CONNECTION_ID not in headers:
            await self._initialize(scope, body, message, send)
            return
        connection_id, peer = self._find(headers)
        peer.take(body, message)
        self._note_use(connection_id)
        await _respond(send, 202)

    async def _initialize(self, scope: Message, body: bytes, message: Message, send: Send) -> None:
        if len(self._peers) >= MOST_PEERS:
            raise Refused(503, "too many connections")
        connection_id, peer = self._start(scope, has_session_streams=True)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        peer.take(body, message, lambda data: None if answer.done() else answer.set_result(data))
        try:
            data = await asyncio.wait_for(answer, ANSWER_LIMIT)
        except TimeoutError:
            self._end(connection_id)
            raise Refused(504, "initialize was not answered in time") from None
        self._note_use(connection_id)
        await _respond(send, 200, data, (CONNECTION_ID, connection_id.encode()))

    async def _stream(self, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        accepted = headers.get(b"accept", b"*/*")
        if b"text/event-stream" not in accepted and b"*/*" not in accepted:
            raise Refused(406, "the client must accept text/event-stream")
        connection_id, peer = self._find(headers)
        session_id = headers.get(SESSION_ID)
        outbox = peer.outbox if session_id is None else peer.open_session(session_id.decode("latin-1"))
        last = headers.get(b"last-event-id")
        if last is not None and not (last.isdigit() and outbox.rewind(int(last))):
            raise Refused(
                409, "the events after Last-Event-ID are no longer available; load the session again"
            )
        self._note_use(connection_id, streams=1)
        sender = asyncio.create_task(_send_events(outbox, send))
        try:
            gone = asyncio.create_task(_wait_for_end(receive))
            await asyncio.wait((sender, gone), return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
        finally:
            sender.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sender
            self._note_use(connection_id, streams=-1)

    # The connections.

    def _start(self, scope: Message, *, has_session_streams: bool = False) -> tuple[str, Peer]:
        agents = parse_qs(scope["query_string"].decode("latin-1")).get("agent")
        connection_id = os.urandom(16).hex()
        options = Options(agent=agents[0] if agents else None, is_remote=True)
        peer = Peer(options, has_session_streams=has_session_streams)
        self._peers[connection_id] = peer
        return connection_id, peer

    def _find(self, headers: Mapping[bytes, bytes]) -> tuple[str, Peer]:
        connection_id = headers.get(CONNECTION_ID, b"").decode("latin-1")
        if not connection_id:
            raise Refused(400, "the header Acp-Connection-Id is missing")
        peer = self._peers.get(connection_id)
        if peer is None:
            raise Refused(404, "there is no such connection; send initialize again")
        return connection_id, peer

    def _end(self, connection_id: str) -> None:
        peer = self._peers.pop(connection_id, None)
        timer = self._timers.pop(connection_id, None)
        self._streams.pop(connection_id, None)
        if timer is not None:
            timer.cancel()
        if peer is not None:
            peer.close()

    def _note_use(self, connection_id: str, streams: int = 0) -> None:
        """Let an HTTP connection live for a while; as long as it has an open stream, it stays."""
        if connection_id not in self._peers:
            return
        self._streams[connection_id] = self._streams.get(connection_id, 0) + streams
        timer = self._timers.pop(connection_id, None)
        if timer is not None:
            timer.cancel()
        if not self._streams[connection_id]:
            loop = asyncio.get_running_loop()
            self._timers[connection_id] = loop.call_later(IDLE_LIMIT, self._end, connection_id)


async def _send_frames(outbox: Outbox, send: Send) -> None:
    """Send everything as text frames, then close the socket."""
    reader = outbox.open()
    while messages := await outbox.read(reader):
        for number, data in messages:
            await send({"type": "websocket.send", "text": data.decode()})
            outbox.note_delivered(number)
    await send({"type": "websocket.close", "code": GOING_AWAY})


async def _send_events(outbox: Outbox, send: Send) -> None:
    """Send everything as server-sent events; a comment now and then, so that nobody thinks it is dead."""
    reader = outbox.open()
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    body, messages = b": open\n\n", list[tuple[int, bytes]]()
    while body:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        if messages:
            outbox.note_delivered(messages[-1][0])
        try:
            messages = await asyncio.wait_for(outbox.read(reader), KEEP_ALIVE)
        except TimeoutError:
            body, messages = b": keep-alive\n\n", []
            continue
        body = b"".join(b"id: %d\ndata: %b\n\n" % entry for entry in messages)
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > MOST_BODY:
            raise Refused(413, f"a message may have at most {MOST_BODY} bytes")
        if not message.get("more_body"):
            break
    return bytes(body)


async def _respond(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    kind: list[tuple[bytes, Any]] = [(b"content-type", b"application/json")] if body else []
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})
