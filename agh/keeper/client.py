"""The command's side of a live session: ask its keeper, or start one.

Any number of commands at once give exactly one keeper: a command connects; if nobody answers it takes
the session's lock and starts a keeper that inherits it; if the lock is taken, it connects again.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import orjson

from agh.errors import (
    AghError,
    KeeperDied,
    KeeperFailed,
    KeeperGone,
    Relayed,
    TimedOut,
)
from agh.home import open_private
from agh.keeper import server
from agh.keeper.spawn import ORDINARY, give_orders
from agh.store import lock, meta
from agh.store.lock import Lock
from agh.store.watch import Watch

READY_LIMIT = 300.0  # above the sum of what the phases of a start may take
CONNECT_LIMIT = 90.0
ANSWER_LIMIT = 30.0
started: list[int] = []  # keepers that are children of this process; one that outlives them waits for them


def call(directory: str, verb: str, *, limit: float = ANSWER_LIMIT, **args: Any) -> dict[str, Any]:
    """The keeper's answer. KeeperGone when there is none to ask; KeeperDied when it took the request to
    its grave: it may have been done, so nobody asks again by himself."""
    session_id = os.path.basename(directory)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(limit)
        try:
            with server.short_path(directory) as address:
                connection.connect(address)
        except OSError:
            raise KeeperGone(session_id) from None
        try:
            connection.sendall(server.encode({"v": server.VERSION, "verb": verb, **args}))
            line = _line(connection)
        except TimeoutError:
            raise TimedOut(f"the keeper of {session_id}", limit) from None
        except OSError:
            line = b""
    if not line:
        raise KeeperDied(session_id, hint=f"agh session status {session_id}")
    answer = orjson.loads(line)
    if "error" in answer:
        raise Relayed(answer["error"])
    result: dict[str, Any] = answer["ok"]
    return result


def answers(directory: str) -> bool:
    """Whether the session's keeper is there and well enough to say so at once."""
    try:
        call(directory, "hello", limit=2)
    except AghError:
        return False
    return True


def ensure_live(directory: str, **intent: Any) -> dict[str, Any]:
    """Make the session live and return its keeper's hello; `intent` is for a start, if one is needed."""
    deadline = time.monotonic() + CONNECT_LIMIT
    with Watch() as watch:
        watch.add(directory)
        while True:
            try:
                return call(directory, "hello", limit=CONNECT_LIMIT) | {"started": False}
            except (KeeperGone, KeeperDied):
                pass
            except Relayed as error:
                if error.code not in ("session_starting", "session_stopping"):
                    raise
            held = lock.take(directory)
            if held is not None:
                with held:
                    return start(held, **intent) | {"started": True}
            if time.monotonic() > deadline:
                raise TimedOut(f"the keeper of {os.path.basename(directory)}", CONNECT_LIMIT)
            watch.wait(0.2)


def start(held: Lock, **intent: Any) -> dict[str, Any]:
    """Start a keeper that takes over the held lock; return when it is ready, or raise why it is not."""
    module = keeper_of(meta.read(held.directory).get("kind"))
    log = open_private(os.path.join(held.directory, "keeper.log"), os.O_WRONLY | os.O_APPEND)
    try:
        begun = give_orders(module, held.directory, held.fd, log, intent)
    finally:
        os.close(log)
    started.append(begun.pid)
    with begun.connection:
        line = _line(begun.connection)
    if not line:
        raise KeeperFailed(
            os.path.basename(held.directory), _tail(os.path.join(held.directory, "keeper.log"))
        )
    report = orjson.loads(line)
    if "error" in report:
        raise Relayed(report["error"])
    result: dict[str, Any] = report["ok"]
    return result


def await_started(directory: str, limit: float = READY_LIMIT) -> None:
    """Wait while the session is being started by someone; how that ended is in its metadata."""
    deadline = time.monotonic() + limit
    with Watch() as watch:
        watch.add(directory)
        while meta.read(directory)["state"] == "starting" and lock.is_held(directory):
            if time.monotonic() > deadline:
                raise TimedOut(f"the keeper of {os.path.basename(directory)}", limit)
            watch.wait(0.2)


def keeper_of(kind: str | None) -> str:
    """The module that keeps sessions of a kind."""
    if not kind:
        return ORDINARY
    from agh.adapters import registry

    return registry.kind(kind).keeper


def await_end(directory: str, limit: float, pid: int | None = None) -> bool:
    """Wait until nobody holds the session's lock, or at least not the keeper `pid`."""
    deadline = time.monotonic() + limit
    with Watch() as watch:
        watch.add(directory)
        while lock.is_held(directory) and (pid is None or _is_alive(pid)):
            if time.monotonic() > deadline:
                return False
            watch.wait(0.2)
    return True


def _is_alive(pid: int) -> bool:
    """One that has ended counts as gone, though nobody has asked for its exit code yet."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] != b"Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True  # there is no /proc


def _line(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        try:
            data = connection.recv(1 << 16)
        except ConnectionResetError:  # it died before it had read all that it was sent
            data = b""
        if not data:
            return b""
        received += data
    return bytes(received)


def _tail(path: str) -> str:
    with open(path, "rb") as file:
        lines = file.read()[-4000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
