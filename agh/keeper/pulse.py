"""Which keepers do not respond: asks many at once, for `list` and `doctor`.

It waits for the slowest, at most LIMIT, or a few times that if hundreds are stuck. A keeper that does not
listen yet, or is gone, is not stuck.
"""

from __future__ import annotations

import _socket  # the module `socket` takes longer to import than all of this takes to run
import errno
import select
import time
from collections.abc import Iterable
from contextlib import suppress

from agh.core.named_tuple import NamedTuple
from agh.home import Session
from agh.keeper.protocol import VERSION, encode, short_path

LIMIT = 2.0
AT_ONCE = 128  # a process may have few descriptors: 256 on some systems


class _Question(NamedTuple):
    """A keeper that was asked, and until when it may answer."""

    session: Session
    connection: _socket.socket
    deadline: float


def find_stuck(sessions: Iterable[Session], limit: float = LIMIT) -> list[Session]:
    """Return the sessions whose keepers do not answer within `limit` seconds of being asked."""
    stuck: list[Session] = []
    waiting: dict[int, _Question] = {}
    poll = select.poll()
    for session in sessions:
        while len(waiting) >= AT_ONCE:
            stuck += _take_answers(poll, waiting)
        try:
            try:
                question = _ask(session, limit)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not waiting:
                    raise
                while waiting:  # their descriptors are needed
                    stuck += _take_answers(poll, waiting)
                question = _ask(session, limit)
        except BlockingIOError:  # nobody accepts connections
            stuck.append(session)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
        else:
            waiting[question.connection.fileno()] = question
            poll.register(question.connection.fileno(), select.POLLIN)
    while waiting:
        stuck += _take_answers(poll, waiting)
    return stuck


def _ask(session: Session, limit: float) -> _Question:
    deadline = time.monotonic() + limit
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        with short_path(session) as address:
            connection.connect(address)
        connection.send(encode({"v": VERSION, "verb": "hello", "deadline": deadline}))
    except OSError:
        connection.close()
        raise
    return _Question(session, connection, deadline)


def _take_answers(poll: select.poll, waiting: dict[int, _Question]) -> list[Session]:
    """Wait for an answer or the next deadline; close what is over, and return the sessions without answer."""
    oldest = next(iter(waiting.values()))  # all wait equally long
    ready = poll.poll(max(0.0, oldest.deadline - time.monotonic()) * 1000)
    over = [fd for fd, _ in ready] or [oldest.connection.fileno()]
    silent = [] if ready else [oldest.session]
    for fd in over:
        poll.unregister(fd)
        with suppress(OSError):
            waiting.pop(fd).connection.close()
    return silent
