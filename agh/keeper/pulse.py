"""Which keepers do not respond: asks many at once, for `list` and `doctor`.

It waits for the slowest, at most LIMIT. A keeper that does not listen yet, or is gone, is not stuck.
"""

from __future__ import annotations

import _socket  # the module `socket` takes longer to import than all of this takes to run
import select
import time
from collections.abc import Iterable
from contextlib import suppress

from agh.keeper.protocol import VERSION, encode, short_path

LIMIT = 2.0


def find_stuck(directories: Iterable[str], limit: float = LIMIT) -> list[str]:
    """Return the session directories whose keepers do not answer within `limit` seconds."""
    deadline = time.monotonic() + limit
    hello = encode({"v": VERSION, "verb": "hello", "deadline": deadline})
    stuck: list[str] = []
    waiting: dict[int, tuple[str, _socket.socket]] = {}
    poll = select.poll()
    for directory in directories:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            with short_path(directory) as address:
                connection.connect(address)
            connection.send(hello)
        except BlockingIOError:  # nobody accepts connections
            stuck.append(directory)
            connection.close()
        except OSError:
            connection.close()
        else:
            waiting[connection.fileno()] = directory, connection
            poll.register(connection.fileno(), select.POLLIN)
    while waiting and (answered := poll.poll(max(0.0, deadline - time.monotonic()) * 1000)):
        for fd, _ in answered:
            poll.unregister(fd)
            waiting.pop(fd)[1].close()
    for directory, connection in waiting.values():
        stuck.append(directory)
        with suppress(OSError):
            connection.close()
    return stuck
