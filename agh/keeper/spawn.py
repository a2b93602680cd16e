"""Starting a keeper, from the command's side.

A keeper starts with its session's directory and a socket. On the socket it receives the session's lock, its
log file and the request; there it answers that it is ready, or why not. So the keeper of a new session can be
started ahead, while the command still reads its arguments, and both import their modules side by side. A
keeper that receives nothing exits with the command.

Nothing is imported here that takes long, since a keeper that is started ahead waits for that: it starts 8 ms
earlier than with `socket`, `typing` and `re`.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from agh.errors import AghError
from agh.home import Session, new_session_id, session_of
from agh.keeper.leash.ahead import ORPHAN, RUN_KEEPER
from agh.keeper.leash.spawn import spawn

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_MODULE = "agh.keeper.main"  # keeps sessions of no plugin's kind
AHEAD_LIMIT = 5.0  # seconds; a session's id tells when it was created, so it must not be older


class RequestUnread(Exception):
    """The keeper died before it had read its request, so it has done nothing."""


class KeeperProcess:
    """A keeper that was started, and the socket to it."""

    def __init__(self, pid: int, session: Session, socket_fd: int) -> None:
        self.pid, self.session = pid, session
        self._socket_fd = socket_fd
        self._connection: _socket.socket | None = None

    @property
    def connection(self) -> _socket.socket:
        """Return the socket. Its caller closes it."""
        if self._connection is None:
            self._connection = _socket.socket(fileno=self._socket_fd)
        return self._connection


_ahead: KeeperProcess | None = None
_since = 0.0
orphans = False  # whether keepers leave this process's tree, which whoever started it may kill as a whole


def start_keeper(module: str, session: Session, log: int | None = None) -> KeeperProcess:
    """Start a keeper that waits for its request; until then it writes its errors to `log`, if any."""
    ours, theirs = _socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    output = null if log is None else log
    quickly = ["-c", RUN_KEEPER] if module == DEFAULT_MODULE else []
    command = [sys.executable, "-P", *quickly, "-m", module, session.directory, str(theirs.fileno())]
    environ: Mapping[str, str] = os.environ
    if orphans:  # perhaps below the leash of another session, which must not take it for a part of that
        command.append(ORPHAN)
        environ = {**os.environ, "AGH_LAUNCH": f"keeper-{os.urandom(8).hex()}"}
    try:
        pid = spawn(command, environ, (null, output, output), (theirs.fileno(),))
    finally:
        os.close(null)
        theirs.close()
    return KeeperProcess(pid, session, ours.detach())


def start_ahead() -> None:
    """Start the keeper of the session that this command is going to create."""
    global _ahead, _since
    try:
        _ahead, _since = start_keeper(DEFAULT_MODULE, session_of(new_session_id())), time.monotonic()
    except (AghError, OSError):
        pass  # the command will fail in the same way, and say so


def next_id() -> str:
    """Return the id for a new session: that of the keeper that was started ahead, if there is one."""
    global _ahead
    if _ahead is not None:
        if time.monotonic() - _since < AHEAD_LIMIT:
            return _ahead.session.id
        _ahead.connection.close()
        _ahead = None
    return new_session_id()


def take_or_start_keeper(module: str, session: Session, log: int) -> KeeperProcess:
    """Return the keeper that was started ahead for this session, or start one now."""
    global _ahead
    waiting, _ahead = _ahead, None
    if waiting is not None:
        if (module, session) == (DEFAULT_MODULE, waiting.session):
            return waiting
        waiting.connection.close()
    return start_keeper(module, session, log)


def send_request(
    keeper: KeeperProcess, module: str, lock: int, log: int, request: Mapping[str, Any]
) -> KeeperProcess:
    """Send a waiting keeper the lock, the log and the request; replace it first if it has died.

    The process may already have exited when this returns; its log then says why.
    """
    import orjson

    line = orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE)
    if not _send(keeper, line, lock, log):
        keeper.connection.close()
        keeper = start_keeper(module, keeper.session, log)
        _send(keeper, line, lock, log)
    return keeper


def read_line(keeper: KeeperProcess, received: bytearray, deadline: float) -> bytes | None:
    """Return the next line that the keeper reports: empty if it has ended, None if the deadline has passed.

    The deadline is monotonic. `received` keeps what has come so far. Raises RequestUnread.
    """
    while b"\n" not in received:
        keeper.connection.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = keeper.connection.recv(1 << 16)
        except TimeoutError:
            return None
        except ConnectionResetError:  # the system's word for unread data at the other end
            raise RequestUnread from None
        if not data:
            return b""
        received += data
    line, _, rest = received.partition(b"\n")
    received[:] = rest
    return bytes(line)


def _send(keeper: KeeperProcess, line: bytes, *descriptors: int) -> bool:
    from struct import pack

    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pack(f"{len(descriptors)}i", *descriptors))
    try:
        keeper.connection.sendmsg([line], [rights])
    except OSError:
        return False
    return True
