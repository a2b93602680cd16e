"""Which keepers do not respond: asks many at once, for `list` and `doctor`.

It waits for the slowest, at most LIMIT. A keeper that does not listen yet, or is gone, is not stuck.
"""

from __future__ import annotations

import _socket  # the module `socket` takes longer to import than all of this takes to run
import select
import time
from collections.abc import Iterable
from contextlib import suppress

from agh.home import Session
from agh.keeper.protocol import VERSION, encode, short_path

LIMIT = 2.0


def find_stuck(sessions: Iterable[Session], limit: float = LIMIT) -> list[Session]:
    """Return the sessions whose keepers do not answer within `limit` seconds."""
    deadline = time.monotonic() + limit
    hello = encode({"v": VERSION, "verb": "hello", "deadline": deadline})
    stuck: list[Session] = []
    waiting: dict[int, tuple[Session, _socket.socket]] = {}
    poll = select.poll()
    for session in sessions:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            with short_path(session) as address:
                connection.connect(address)
            connection.send(hello)
        except BlockingIOError:  # nobody accepts connections
            stuck.append(session)
            connection.close()
        except OSError:
            connection.close()
        else:
            waiting[connection.fileno()] = session, connection
            poll.register(connection.fileno(), select.POLLIN)
    while waiting and (answered := poll.poll(max(0.0, deadline - time.monotonic()) * 1000)):
        for fd, _ in answered:
            poll.unregister(fd)
            waiting.pop(fd)[1].close()
    for session, connection in waiting.values():
        stuck.append(session)
        with suppress(OSError):
            connection.close()
    return stuck
