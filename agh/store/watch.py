"""Waiting for a session's directory to change, without burning CPU.

On Linux inotify wakes the waiter: on commits (the WAL is written), on meta.json, and on the death of
the keeper (the kernel closes its lock file). It tells of the WAL before the commit can be read, so a
waiter that was woken and finds nothing looks again a few times: `wait` returns early for those looks.
Elsewhere the wait is a poll every 10 ms.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x8, 0x80, 0x100
_IN_ONLYDIR = 0x01000000
_MASK = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR
# Quick at first, then patient: a slow disk may take long from the write to the commit.
_LOOKS_AGAIN = (
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.004,
    *(0.008,) * 4,
    *(0.016,) * 8,
    *(0.03,) * 10,
    *(0.06,) * 25,
)
_BREATH = 0.001  # a commit of many pages wakes for each of them
_POLL = 0.01
IDLE = 1.0


class Watch:
    """Use: look, then `wait()`, and look again. `found()` says that a look showed something."""

    def __init__(self) -> None:
        self._fd = _inotify_init()
        self._poll = select.poll()
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)
        self._looks = len(_LOOKS_AGAIN)

    def add(self, directory: str) -> None:
        if self._fd >= 0 and _libc().inotify_add_watch(self._fd, os.fsencode(directory), _MASK) < 0:
            self.close()  # out of watches: polling serves all directories

    def found(self) -> None:
        self._looks = 0  # more may have been announced together with what was found

    def wait(self, limit: float = IDLE) -> None:
        """Return when something may have changed, or after `limit` seconds (at most a second)."""
        limit = min(limit, IDLE)
        if self._fd < 0:
            time.sleep(min(limit, _POLL))
        elif self._looks < len(_LOOKS_AGAIN):
            if self._woken(min(limit, _LOOKS_AGAIN[self._looks])):
                self._looks = 0
            else:
                self._looks += 1
        elif self._woken(limit):
            self._looks = 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _woken(self, limit: float) -> bool:
        looked = time.monotonic()
        if not self._poll.poll(limit * 1000):
            return False
        time.sleep(max(0.0, looked + _BREATH - time.monotonic()))
        os.read(self._fd, 65536)
        return True


def _inotify_init() -> int:
    try:
        return int(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    except (AttributeError, OSError):
        return -1


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)
