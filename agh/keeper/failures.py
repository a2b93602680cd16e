"""What the system under agh lacks when something fails: room, the right to write, descriptors.

Promises: a full disk is called that, whatever SQLite or the keeper could say of it.
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
    MetaInvalid,
    NoDescriptors,
    SessionNotFound,
    StoreFailed,
    SystemFailed,
)
from agh.home import Session, check_descriptors, home_path, is_session_id
from agh.store import meta
from agh.store.writer import is_full, store_failed

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
OTHERS = (errno.EIO, errno.ENOMEM, errno.EAGAIN, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE)
FEW = 64  # descriptors; with fewer, Python itself cannot always import a module
TAIL = 4000


def explain_end(session: Session, otherwise: AghError) -> AghError:
    """Return why the session's keeper could not write its log, or `otherwise` if that is not why it ended.

    The keeper's own log may be on the very disk that is full.
    """
    if is_full(session):
        return store_failed(session, "")
    try:
        started = str((meta.read(session).get("keeper") or {}).get("started_at") or "~")
    except MetaInvalid:
        return otherwise
    moment, _, text = last_line(session).partition(" ")
    if moment >= started and text.startswith("store_failed: "):
        return store_failed(session, text.rpartition("cannot be written: ")[2])
    return otherwise


def last_line(session: Session) -> str:
    """Return the last line of keeper.log; empty if there is none."""
    try:
        with open(os.path.join(session, "keeper.log"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def explain(error: Exception) -> AghError | None:
    """Return what the system lacked, or None if this is not the system's failure."""
    if isinstance(error, DataDamaged | FileNotFoundError):
        return None if isinstance(error, StoreFailed) else _explain_deleted(error)
    if isinstance(error, ImportError):
        return NoDescriptors() if _has_few_descriptors() else None
    if not isinstance(error, OSError):
        return None
    path = _path_of(error)
    if error.errno in FULL:
        return DiskFull(path, error.strerror)
    if error.errno in READ_ONLY and _is_in_home(path):
        return HomeReadOnly(path, error.strerror)
    if error.errno in EXHAUSTED:
        return NoDescriptors()
    return SystemFailed(f"{path}: {error.strerror}") if error.errno in OTHERS else None


def _path_of(error: OSError) -> str:
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


def _explain_deleted(error: Exception) -> SessionNotFound | None:
    """Return that there is no such session, if it was deleted while the command was about to use it."""
    if isinstance(error, FileNotFoundError):
        parts = _path_of(error).split(os.sep)
    else:
        parts = [str(argument) for argument in error.args[:1]]
    for part in parts:
        if is_session_id(part) and not os.path.isdir(os.path.join(home_path(), "sessions", part)):
            return SessionNotFound(part)
    return None


def _has_few_descriptors() -> bool:
    import resource

    try:
        check_descriptors()
    except OSError:
        return True
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] < FEW
