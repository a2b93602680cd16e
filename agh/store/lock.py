"""Who owns a session: a kernel lock on its `lock` file, held for the owner's whole life.

The kernel frees the lock when its owner dies, so nothing goes stale and nothing is cleaned up. The
file is never removed. `is_held` asks without taking: an honest taker never fails because of a probe.
The lock is an open-file-description lock, which an inherited descriptor carries to another program;
where the system has none, flock stands in, and there a taker tries again for a moment.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time

from agh.home import open_private

_OFD = hasattr(fcntl, "F_OFD_SETLK")
_FLOCK_RETRY = 0.1


class Lock:
    """A held lock. Whoever has one may write the session; `release` or process death ends it."""

    def __init__(self, fd: int, directory: str) -> None:
        self.fd = fd
        self.directory = directory

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def take(directory: str) -> Lock | None:
    """The lock of the session in `directory`, or None when someone else holds it."""
    fd = open_private(os.path.join(directory, "lock"), os.O_RDWR)
    if _try_lock(fd):
        return Lock(fd, directory)
    os.close(fd)
    return None


def is_held(directory: str) -> bool:
    """Whether anyone holds the lock now. Never takes it, never creates the file."""
    try:
        fd = os.open(os.path.join(directory, "lock"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # not there, or a link: nobody takes it through that
    try:
        if _OFD:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
            return int(struct.unpack_from("h", answer)[0]) != fcntl.F_UNLCK
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    if _OFD:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
        except (BlockingIOError, PermissionError):
            return False
        return True
    deadline = time.monotonic() + _FLOCK_RETRY
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)


def _whole_file(kind: int) -> bytes:
    """A `struct flock` that covers the file from its start; the pid must be 0 for OFD locks."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
