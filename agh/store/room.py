"""The room on the disk of a session, and the failure that says what is wrong with its log."""

from __future__ import annotations

import errno
import os

from agh.errors import StoreFailed

LITTLE = 64 << 10  # bytes; a commit may need more


def free_bytes(directory: str) -> int:
    """Return how many bytes this user can still write there; none if no file can be created."""
    disk = os.statvfs(directory)
    return 0 if disk.f_files and not disk.f_favail else disk.f_bavail * disk.f_frsize


def is_full(directory: str) -> bool:
    """Tell whether the disk has next to no room. A disk that cannot be asked is not full."""
    try:
        return free_bytes(directory) < LITTLE
    except OSError:
        return False


def store_failed(directory: str, cause: object) -> StoreFailed:
    """Return the error for a log that cannot be written. SQLite does not always say that the disk is full."""
    if is_full(directory):
        cause = os.strerror(errno.ENOSPC)
    return StoreFailed(os.path.basename(directory), cause, hint=f"df -h {directory}")
