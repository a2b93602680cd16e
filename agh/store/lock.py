"""Session ownership: a kernel lock on the session's `lock` file, held for the owner's whole life.

The kernel releases the lock when its owner dies, so it never goes stale and needs no cleanup. The file
is never deleted. `is_held` checks without taking the lock, so it never makes `take` fail for others.
It is an open-file-description lock, which another program can inherit with the descriptor. Systems
without these use flock; there `is_held` takes a shared lock for an instant, so `take` retries briefly.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time

TYPE_CHECKING = False  # `agh inbox --count` imports this module: typing would double its time
if TYPE_CHECKING:
    from typing import Self

    from agh.home import Session

_OFD = hasattr(fcntl, "F_OFD_SETLK")
_FLOCK_RETRY = 0.1


class DirectoryLock:
    """A held lock of a directory, until `release` or the end of the process."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class Lock(DirectoryLock):
    """A held lock of a session. Its holder may write the session."""

    def __init__(self, fd: int, session: Session) -> None:
        super().__init__(fd)
        self.session = session


def take(session: Session) -> Lock | None:
    """Take the lock of a session, or return None if someone else holds it."""
    fd = _take(session.directory)
    return None if fd is None else Lock(fd, session)


def take_directory(directory: str, part: int | None = None) -> DirectoryLock | None:
    """Take the lock of a directory that is not a session's, or return None if someone else holds it.

    With `part`, take only this part of it: locks of other parts do not conflict, a lock of the whole does.
    """
    fd = _take(directory, part)
    return None if fd is None else DirectoryLock(fd)


def is_held(session: Session | str) -> bool:
    """Tell whether anyone holds the lock of a session now. Never takes it, never creates the file."""
    try:
        fd = os.open(os.path.join(session, "lock"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return False  # missing, or a link, which `take` refuses
    try:
        if _OFD:
            blocking = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK))
            return int(struct.unpack_from("h", blocking)[0]) != fcntl.F_UNLCK
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
    finally:
        os.close(fd)


def _take(directory: str, part: int | None = None) -> int | None:
    from agh.home import open_private

    fd = open_private(os.path.join(directory, "lock"), os.O_RDWR)
    if _try_lock(fd, part):
        return fd
    os.close(fd)
    return None


def _try_lock(fd: int, part: int | None) -> bool:
    if _OFD:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, part))
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


def _flock(lock_type: int, part: int | None = None) -> bytes:
    """Build a `struct flock` that covers the whole file, or one byte. The pid must be 0 for OFD locks."""
    start, length = (0, 0) if part is None else (part, 1)
    return struct.pack("hhqqi4x", lock_type, os.SEEK_SET, start, length, 0)
