"""The command's end of a live session: call its keeper, and wait for its start or end.

A command is 2 ms faster with the sockets of `_socket`, which `socket` wraps in enumerations and methods.
"""

from __future__ import annotations

import _socket
import os
import time
from contextlib import closing
from typing import Any

import orjson

from agh.errors import (
    AghError,
    KeeperDied,
    KeeperGone,
    KeeperNotResponding,
    Relayed,
)
from agh.home import Session
from agh.keeper import protocol
from agh.store import lock, meta
from agh.store.watch import Watch

READY_LIMIT = 300.0  # more than the phases of a start can take together
CONNECT_LIMIT = 90.0
ANSWER_LIMIT = 30.0
HELLO_LIMIT = 2.0


def call(
    session: Session, verb: str, *, limit: float = ANSWER_LIMIT, valid: float | None = None, **args: Any
) -> dict[str, Any]:
    """Send the keeper a request and return its answer.

    Raises KeeperGone if there is no keeper, and KeeperNotResponding if it does not answer within `limit`
    seconds. The keeper drops a request that it reads later than after `valid` seconds (default: `limit`).
    Raises KeeperDied if it died before it answered: the request may have been carried out, so it is not sent
    again.
    """
    with closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)) as connection:
        return call_on(connection, session, verb, limit=limit, valid=valid, **args)


def call_on(
    connection: _socket.socket,
    session: Session,
    verb: str,
    *,
    limit: float = ANSWER_LIMIT,
    valid: float | None = None,
    **args: Any,
) -> dict[str, Any]:
    """Do the same on a new socket that the caller closes, for a lease that ends with its connection."""
    session_id = session.id
    deadline = time.monotonic() + limit
    request = {"v": protocol.VERSION, "verb": verb, "deadline": time.monotonic() + (valid or limit), **args}
    try:
        _connect(connection, session, deadline)
    except TimeoutError:
        raise KeeperNotResponding(session_id) from None
    except OSError:
        raise KeeperGone(session_id) from None
    try:
        connection.sendall(protocol.encode(request))
        line = _read_line(connection, deadline)
    except TimeoutError:
        raise KeeperNotResponding(session_id) from None
    except OSError:
        line = b""
    if not line:
        raise KeeperDied(session_id, hint=f"agh session status {session_id}")
    answer = orjson.loads(line)
    if "error" in answer:
        raise Relayed(answer["error"])
    result: dict[str, Any] = answer["ok"]
    return result


def _connect(connection: _socket.socket, session: Session, deadline: float) -> None:
    """Connect to the keeper's socket. While its queue of connections is full, wait for it to accept some."""
    connection.settimeout(max(0.001, deadline - time.monotonic()))
    with protocol.short_path(session) as address:
        while True:
            try:
                return connection.connect(address)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
                time.sleep(0.01)


def answers(session: Session) -> bool:
    """Tell whether the session's keeper is there and ready. Raise KeeperNotResponding if it is silent."""
    try:
        call(session, "hello", limit=HELLO_LIMIT)
    except KeeperNotResponding:
        raise
    except Relayed as error:
        return error.code == "control_version"  # a keeper of another version is one, too
    except AghError:
        return False
    return True


def responds(session: Session) -> bool:
    """Tell whether the session has a keeper that answers at all, be it that it is still starting."""
    try:
        call(session, "hello", limit=HELLO_LIMIT)
    except Relayed:
        return True
    except AghError:
        return False
    return True


def await_started(session: Session, limit: float = READY_LIMIT) -> None:
    """Wait while another command starts the session; its metadata then says how that ended."""
    deadline = time.monotonic() + limit
    with Watch() as watch:
        watch.add(session)
        while meta.read(session)["state"] == "starting" and lock.is_held(session):
            if time.monotonic() > deadline:
                raise KeeperNotResponding(session.id)
            watch.wait(0.2)


def await_end(session: Session, limit: float, pid: int | None = None) -> bool:
    """Wait until the session's lock is free, or at least the keeper `pid` is gone; False on a timeout."""
    deadline = time.monotonic() + limit
    with Watch() as watch:
        watch.add(session)
        while lock.is_held(session) and (pid is None or _is_alive(pid)):
            if time.monotonic() > deadline:
                return False
            watch.wait(0.2)
    return True


def _is_alive(pid: int) -> bool:
    """Tell whether a process is running; a zombie is not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] != b"Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True  # there is no /proc


def _read_line(connection: _socket.socket, deadline: float) -> bytes:
    """Read one line and leave what comes after it: to an editor that lends, the keeper sends work at once.

    Return nothing if the peer is gone before the end of the line. Raise TimeoutError at the deadline.
    """
    received = bytearray()
    while not received.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = connection.recv(1 << 16, _socket.MSG_PEEK)
            data = connection.recv(data.find(b"\n") + 1 or len(data) or 1)
        except ConnectionResetError:  # it died before it had read everything
            data = b""
        if not data:
            return b""
        received += data
    return bytes(received)
