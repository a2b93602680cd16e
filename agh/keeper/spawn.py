"""Beginning a keeper, from the command's side.

A keeper is begun with its session's directory and a socket. On the socket it is given its orders: the
session's held lock, its log, and what the command wants; there it answers that it is ready, or why not.
So the keeper of a new session can be begun ahead, while the command still reads its arguments: both import
what they need side by side. One that is given no orders ends with the command.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from agh.errors import AghError
from agh.home import new_session_id, session_path
from agh.keeper.leash.spawn import spawn

ORDINARY = "agh.keeper.main"  # keeps a session that is of no plugin's kind
FRESH = 5.0  # seconds; the id of a session that is made later would tell the wrong time


class Begun(NamedTuple):
    """A keeper that waits for its orders."""

    pid: int
    directory: str
    connection: socket.socket


_ahead: Begun | None = None
_since = 0.0


def begin(module: str, directory: str, log: int | None = None) -> Begun:
    """`log` is where it writes what goes wrong before it has its orders."""
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    told = null if log is None else log
    command = [sys.executable, "-P", "-m", module, directory, str(theirs.fileno())]
    try:
        pid = spawn(command, os.environ, (null, told, told), (theirs.fileno(),))
    finally:
        os.close(null)
        theirs.close()
    return Begun(pid, directory, ours)


def begin_ahead() -> None:
    """Begin the keeper of a session that this command will make, unless it finds a reason not to."""
    global _ahead, _since
    try:
        _ahead, _since = begin(ORDINARY, session_path(new_session_id())), time.monotonic()
    except (AghError, OSError):
        pass  # the command will find out, and say so


def next_id() -> str:
    """The id of a new session: the one whose keeper was begun ahead, if there is one."""
    global _ahead
    if _ahead is not None and time.monotonic() - _since < FRESH:
        return os.path.basename(_ahead.directory)
    _ahead = None
    return new_session_id()


def begin_or_take(module: str, directory: str, log: int) -> Begun:
    """Return the keeper that was started ahead for this session, or start one now."""
    global _ahead
    waiting, _ahead = _ahead, None
    if waiting is not None:
        if (module, directory) == (ORDINARY, waiting.directory):
            return waiting
        waiting.connection.close()
    return begin(module, directory, log)


def give_orders(process: Begun, module: str, lock: int, log: int, intent: Mapping[str, Any]) -> Begun:
    """Pass a waiting keeper the lock, the log and what the command wants; replace it if it has died.

    The keeper that is returned may have ended again: then its log says why.
    """
    import orjson

    orders = orjson.dumps(intent, option=orjson.OPT_APPEND_NEWLINE)
    if not _give(process, orders, lock, log):
        process.connection.close()
        process = begin(module, process.directory, log)
        _give(process, orders, lock, log)
    return process


def _give(process: Begun, orders: bytes, *descriptors: int) -> bool:
    try:
        socket.send_fds(process.connection, [orders], descriptors)
    except OSError:
        return False
    return True
