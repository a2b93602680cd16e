"""Failures of the system under a command, and how they are reported: a full disk, a read-only home and so on.

Imported only when something has failed.
"""

from __future__ import annotations

import errno
import os

from agh.errors import (
    AghError,
    DataDamaged,
    DiskFull,
    HomeReadOnly,
    HomeUnknown,
    NoDescriptors,
    SessionNotFound,
    SystemFailed,
)
from agh.home import SESSION_ID, home_path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
OTHERS = (errno.EIO, errno.ENOMEM, errno.EAGAIN, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE)
FEW = 64  # descriptors; with fewer, Python itself cannot always import a module


def explain(error: Exception) -> AghError | None:
    """Return what the system lacked, or None if this is not the system's failure."""
    if isinstance(error, DataDamaged | FileNotFoundError):
        return _deleted(error)
    if isinstance(error, ImportError):
        return NoDescriptors() if _has_few_descriptors() else None
    if not isinstance(error, OSError):
        return None
    path = _path(error)
    if error.errno in FULL:
        return DiskFull(path, error.strerror)
    if error.errno in READ_ONLY and _is_in_home(path):
        return HomeReadOnly(path, error.strerror)
    if error.errno in EXHAUSTED:
        return NoDescriptors()
    return SystemFailed(f"{path}: {error.strerror}") if error.errno in OTHERS else None


def _path(error: OSError) -> str:
    if error.filename is not None:
        return os.fsdecode(error.filename) if not isinstance(error.filename, int) else "a file"
    try:
        return home_path()
    except HomeUnknown:
        return "a file"


def _is_in_home(path: str) -> bool:
    try:
        return f"{path}/".startswith(home_path() + "/")
    except HomeUnknown:
        return False


def _deleted(error: Exception) -> SessionNotFound | None:
    """Return that there is no such session, if it was deleted while the command was about to use it."""
    if isinstance(error, FileNotFoundError):
        parts = _path(error).split(os.sep)
    else:
        parts = [str(argument) for argument in error.args[:1]]
    for part in parts:
        if SESSION_ID.fullmatch(part) and not os.path.isdir(os.path.join(home_path(), "sessions", part)):
            return SessionNotFound(part)
    return None


def _has_few_descriptors() -> bool:
    import resource

    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return True
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] < FEW
