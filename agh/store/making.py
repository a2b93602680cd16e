"""Creating a session. Promises: a session appears when it is complete, or not at all.

It is built in a hidden directory that no command looks at, which is then renamed. The next `sweep` deletes
the hidden directories and temporary files that killed processes have left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agh.errors import SessionExists
from agh.home import ensure_home, home_path, make_private_dir, session_path, sessions_path
from agh.store import lock as locks
from agh.store import meta, writer
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.replace import sync_directory

_HIDDEN = ".making-"


@contextmanager
def making(session_id: str) -> Iterator[Lock]:
    """Create a hidden directory with an empty log, and yield its lock.

    If the block does not call `appear`, the directory is deleted. If it does, the lock belongs to the
    caller, who must release it or pass it on.
    """
    lock = _create_hidden(session_id)
    try:
        writer.create(lock)
        yield lock
    finally:
        if _is_hidden(lock.directory):
            _delete(lock)


def appear(lock: Lock, metadata: Meta) -> None:
    """Write the metadata and make the session visible. Raise SessionExists if its id is in use."""
    meta.write(lock.directory, metadata)
    target = session_path(metadata["id"])
    try:
        os.rename(lock.directory, target)
    except OSError:
        if os.path.isdir(target):
            raise SessionExists(metadata["id"]) from None
        raise
    lock.directory = target
    sync_directory(os.path.dirname(target))


def sweep() -> None:
    """Delete what killed processes left: half-made sessions, and temporary files in the home."""
    sweep_temporary(home_path())
    try:
        names = os.listdir(sessions_path())
    except OSError:
        return
    for name in filter(_is_hidden, names):
        directory = os.path.join(sessions_path(), name)
        try:
            lock = locks.take(directory)
        except OSError:
            continue  # another process was quicker
        if lock is not None:
            _delete(lock)


def sweep_temporary(directory: str, *, owned: bool = False) -> None:
    """Delete the temporary files that killed processes left in a directory; with `owned`, all of them."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        if (pid := _temporary_pid(name)) is not None and (owned or not _is_running(pid)):
            with suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _temporary_pid(name: str) -> int | None:
    """Return the pid of the process whose temporary file has this name; None if it is no such file."""
    target, _, pid = name.rpartition(".")
    return (
        int(pid) if target.startswith(".") and len(target) > 1 and pid.isascii() and pid.isdigit() else None
    )


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _create_hidden(session_id: str) -> Lock:
    ensure_home()
    directory = os.path.join(sessions_path(), f"{_HIDDEN}{session_id}-{os.getpid()}")
    while True:
        try:
            make_private_dir(directory)
            lock = locks.take(directory)
        except FileNotFoundError:
            continue  # another process swept it before it was locked
        if lock is not None and os.path.exists(os.path.join(directory, "lock")):
            return lock
        if lock is not None:
            lock.release()


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(_HIDDEN)


def _delete(lock: Lock) -> None:
    import shutil

    shutil.rmtree(lock.directory, ignore_errors=True)
    lock.release()
