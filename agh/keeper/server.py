"""The control socket: each request has a verb and gets a single answer. Facts are read from the log instead.

The socket is 0600 in a 0700 directory, and peers of other users are turned away. See protocol.py for the
messages. The sockets are those of `_socket`: without `socket`, and `selectors` which that imports, a keeper's
start takes 1.5 ms less CPU time.
"""

from __future__ import annotations

import _socket
import os
import struct
import time
from collections.abc import Callable
from typing import Any

import orjson

from agh.errors import AghError, Bug, ControlVersion, StoreFailed, Usage
from agh.home import Session
from agh.keeper.loop import READ, WRITE, Loop
from agh.keeper.protocol import FILE, MAX_MESSAGE, STOP, VERSION, encode, short_path

ACCEPT_PAUSE = 0.2

Answer = Callable[[dict[str, Any] | AghError], None]
Handler = Callable[[dict[str, Any], Answer], None]


class Control:
    """The keeper's end. A handler gets the request and a function that answers it, now or later."""

    def __init__(self, loop: Loop, session: Session, verbs: dict[str, Handler]) -> None:
        self._loop = loop
        self._verbs = verbs
        self._session = session
        self._listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._peers: set[_Peer] = set()
        path = os.path.join(session, FILE)
        if os.path.lexists(path):
            os.unlink(path)
        with short_path(session) as address:
            before = os.umask(0o177)
            try:
                self._listener.bind(address)
            finally:
                os.umask(before)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Send what peers have still to get, as far as they read it, and delete the socket."""
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        self._loop.run_until(lambda: not any(peer.has_unsent for peer in self._peers), limit=1)
        for peer in list(self._peers):
            peer.close()
        os.unlink(os.path.join(self._session, FILE))

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            return
        except OSError:  # out of descriptors: the peer waits until there are some
            self._loop.forget(self._listener.fileno())
            self._loop.later(ACCEPT_PAUSE, self._listen)
            return
        connection = _socket.socket(fileno=fd)
        pid, uid = _peer_of(connection)
        if uid not in (os.geteuid(), None):
            connection.close()
            return
        connection.setblocking(False)
        self._peers.add(_Peer(self._loop, connection, pid, self._verbs, self._peers.discard))


class _Peer:
    def __init__(
        self,
        loop: Loop,
        connection: _socket.socket,
        pid: int | None,
        verbs: dict[str, Handler],
        on_close: Callable[[_Peer], None],
    ) -> None:
        self._loop, self._connection, self._verbs, self._on_close = loop, connection, verbs, on_close
        self._pid = pid
        self._when_gone: list[Callable[[], None]] = []
        self._received = bytearray()
        self._unsent = bytearray()
        loop.watch(connection.fileno(), self._ready)

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def close(self) -> None:
        if self._connection.fileno() >= 0:
            self._loop.forget(self._connection.fileno())
            self._connection.close()
            self._on_close(self)

    def _lose(self) -> None:
        """Close the connection of a peer that has gone, and call whoever waits for that."""
        self.close()
        callbacks, self._when_gone = self._when_gone, []
        for callback in callbacks:
            callback()

    def _ready(self) -> None:
        try:
            if self._unsent:
                self._send()
            data = self._connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            self._lose()
            return
        if not data or len(self._received) + len(data) > MAX_MESSAGE:
            self._lose()
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._handle(bytes(self._received) + line)
            self._received.clear()
        self._received += rest

    def _handle(self, line: bytes) -> None:
        try:
            request = _parse(line)
            request |= {"peer_pid": self._pid, "when_gone": self._when_gone.append}  # whatever it says
            if float(request.get("deadline") or "inf") < time.monotonic():
                return self.close()  # whoever sent it has given up, and may have tried something else
            handler = self._verbs.get(str(request.get("verb")))
            if handler is None:
                raise Usage(f"the keeper does not know the verb {request.get('verb')!r}")
            handler(request, self._answer)
        except AghError as error:
            self._answer(error)
            if isinstance(error, StoreFailed):
                raise  # nothing may happen unrecorded
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            self._answer(Usage(f"the keeper cannot read this request: {error!r}"))
        except Exception as error:
            self._answer(Bug(f"{type(error).__name__}: {error}"))
            raise

    def _answer(self, result: dict[str, Any] | AghError) -> None:
        if self._connection.fileno() < 0:
            return
        if isinstance(result, AghError):
            self._unsent += encode({"error": result.for_relay()})
        else:
            self._unsent += encode({"ok": result})
        try:
            self._send()
        except OSError:
            self._lose()

    def _send(self) -> None:
        try:
            sent = self._connection.send(self._unsent)
            del self._unsent[:sent]
        except BlockingIOError:
            pass
        self._loop.watch(self._connection.fileno(), self._ready, READ | WRITE if self._unsent else READ)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError:
        request = None
    if not isinstance(request, dict):
        raise Usage("a control message must be one line of JSON")
    if request.get("v") != VERSION and request.get("verb") != STOP:
        raise ControlVersion(request.get("v"), VERSION)
    return request


def _peer_of(connection: _socket.socket) -> tuple[int | None, int | None]:
    """Return the peer's process and user id; None if the system does not say (then the modes guard it)."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return None, None
    credentials = connection.getsockopt(_socket.SOL_SOCKET, option, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return int(pid), int(uid)
