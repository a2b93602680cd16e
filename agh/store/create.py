"""Creating a session's directory and log. Promises: a session appears when it is complete, or not at all.

It is built in a hidden directory that no command looks at, which is then renamed. `delete_leftovers` deletes
the hidden directories of processes that were killed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from agh.core.events import timestamp
from agh.errors import SessionExists
from agh.home import (
    Session,
    ensure_home,
    home_path,
    make_private_dir,
    session_of,
    sessions_path,
    sync_directory,
)
from agh.store import lock as locks
from agh.store import meta, schema
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.reader import FILE

_HIDDEN = ".making-"


@contextmanager
def create_session(session_id: str) -> Iterator[Lock]:
    """Create a hidden directory with an empty log, and yield its lock.

    If the block does not call `publish`, the directory is deleted. If it does, the lock belongs to the
    caller, who must release it or pass it on.
    """
    lock = _create_hidden(session_id)
    hidden = lock.session
    try:
        create_log(lock)
        yield lock
    finally:
        if lock.session is hidden:
            _delete(lock)


def publish(lock: Lock, metadata: Meta) -> None:
    """Write the metadata and make the session visible. Raise SessionExists if its id is in use."""
    meta.write(lock.session, metadata)
    visible = session_of(metadata["id"])
    try:
        os.rename(lock.session, visible)
    except OSError:
        if os.path.isdir(visible):
            raise SessionExists(metadata["id"]) from None
        raise
    lock.session = visible
    sync_directory(sessions_path())


def delete_leftovers() -> None:
    """Delete what killed processes left: half-made sessions, and temporary files in the home."""
    delete_temporary(home_path())
    try:
        names = os.listdir(sessions_path())
    except OSError:
        return
    for name in (name for name in names if name.startswith(_HIDDEN)):
        try:
            lock = locks.take(Session(name, os.path.join(sessions_path(), name)))
        except OSError:
            continue  # another process was quicker
        if lock is not None:
            _delete(lock)


def delete_temporary(directory: str | os.PathLike[str], *, owned: bool = False) -> None:
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


def create_log(lock: Lock) -> None:
    """Create an empty log for a new session. It gets its name only when it is complete."""
    path = os.path.join(lock.session, FILE)
    if os.path.lexists(path):
        raise FileExistsError(path)
    unfinished = path + ".new"
    for leftover in (unfinished, unfinished + "-journal", unfinished + "-wal", unfinished + "-shm"):
        if os.path.lexists(leftover):
            os.unlink(leftover)
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # synced once, at the end: 1.4 ms instead of 2.9
            connection.execute("PRAGMA journal_mode = WAL")
            schema.create(connection)
        os.fsync(file)
    except sqlite3.Error as error:
        from agh.store.writer import store_failed

        raise store_failed(lock.session, error) from error
    finally:
        os.close(file)
    os.rename(unfinished, path)
    sync_directory(lock.session)


def _create_hidden(session_id: str) -> Lock:
    ensure_home()
    directory = os.path.join(sessions_path(), f"{_HIDDEN}{session_id}-{os.getpid()}")
    while True:
        try:
            make_private_dir(directory)
            lock = locks.take(Session(session_id, directory))
        except FileNotFoundError:
            continue  # another process swept it before it was locked
        if lock is not None and os.path.exists(os.path.join(directory, "lock")):
            return lock
        if lock is not None:
            lock.release()


def _delete(lock: Lock) -> None:
    import shutil

    shutil.rmtree(lock.session, ignore_errors=True)
    lock.release()


def first_meta(
    session_id: str, agent_name: str, command: list[str] | None, name: str | None, path: str, mode: str | None
) -> Meta:
    """Return the metadata of a session that is about to start for the first time."""
    now = timestamp()
    return {
        "id": session_id,
        "name": name,
        "title": None,
        "agent_name": agent_name,
        "command": command,
        "model": None,
        "mode": None,
        "options": {},
        "permissions": mode,
        "workspace_id": None,
        "workspace_path": path,
        "worktree": None,
        "place": None,
        "cwd": None,
        "state": "starting",
        "stop_reason": None,
        "stop_detail": None,
        "failure": None,
        "acp_session_id": None,
        "acp_session_ids": [],
        "acp_caps": None,
        "restore": None,
        "attach": None,
        "limits": None,
        "spent": None,
        "activity": None,
        "last_sequence": 0,
        "turns": 0,
        "keeper": None,
        "launch": None,
        "archived": False,
        "created_at": now,
        "updated_at": now,
    }
