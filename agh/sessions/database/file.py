"""The file of the database: where it is, whether it is one of ours, opening it to read, creating it.

Promises: what is not a database of agh is refused before SQLite opens it; a new file is private, and appears
under its name only when it is complete. Never replaces a file.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from agh.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseForeign,
    DatabaseMissing,
    DatabaseVersion,
    FileTaken,
    OutputFailed,
)
from agh.home import cache_path, make_private_dir, sync_directory
from agh.sessions.database.schema import APPLICATION_ID, VERSION
from agh.sessions.new_file import create_private_file, give_name, sync_file
from agh.store import lock as locks
from agh.store.lock import DirectoryLock
from agh.store.reader import escape_uri_path

NAME = "sessions.db"
BUSY = 10.0


def default_path() -> str:
    """Return the path of the database that is used if none is named. It need not exist."""
    return os.path.join(cache_path(), NAME)


def ensure_default_directory() -> None:
    """Create the directory of the default database."""
    make_private_dir(cache_path())


def check(path: str) -> bool:
    """Return whether the file exists; raise if it is not a database of agh that this version can use."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DatabaseForeign(path)
        with open(path, "rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        if os.path.islink(path):
            raise DatabaseForeign(path) from None
        return False
    except OSError as error:
        raise OutputFailed(f"{path}: {error.strerror}", hint=_hint_for(error)) from None
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise DatabaseForeign(path)
    if int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise DatabaseForeign(path)
    version = int.from_bytes(header[60:64])
    if version != VERSION:
        raise DatabaseVersion(path, version, VERSION)
    return True


def open_to_read(path: str) -> sqlite3.Connection:
    """Open the database read-only."""
    if not check(path):
        raise DatabaseMissing(path)
    return connect(path, "ro")


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Open an existing database with a mode of SQLite's URIs: ro or rw."""
    try:
        uri = f"file:{escape_uri_path(os.path.abspath(path))}?mode={mode}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY)
    except sqlite3.Error as error:
        raise DatabaseDamaged(path, error) from None


@contextmanager
def new_file(path: str) -> Iterator[str]:
    """Give the path of an empty private file; when the block ends, the file gets the name `path`.

    The file is in a hidden directory beside `path`, which the next build deletes if this process is killed.
    """
    directory, name = os.path.split(os.path.abspath(path))
    hidden = os.path.join(directory, f".{name[:200]}.building")
    with _lock_hidden(path, hidden):
        try:
            fresh = os.path.join(hidden, NAME)
            for leftover in (fresh, fresh + "-journal"):
                if os.path.lexists(leftover):
                    os.unlink(leftover)
            create_private_file(fresh)
            yield fresh
            sync_file(fresh)
            try:
                give_name(fresh, path)
            except FileTaken:
                raise DatabaseBusy(path) from None
            sync_directory(directory)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def _lock_hidden(path: str, hidden: str) -> DirectoryLock:
    """Create the hidden directory and lock it. Raise DatabaseBusy if another build has it."""
    while True:
        try:
            try:
                os.mkdir(hidden, 0o700)
            except FileExistsError:
                info = os.lstat(hidden)
                if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
                    raise OutputFailed(f"{hidden} is in the way", hint=f"rename or delete {hidden}") from None
            lock = locks.take_directory(hidden)
        except FileNotFoundError as error:
            if os.path.isdir(os.path.dirname(hidden)):
                continue  # another build has just ended and deleted it
            folder, hint = os.path.dirname(path) or ".", "name a file in a directory that exists"
            raise OutputFailed(f"{folder}: {error.strerror}", hint=hint) from None
        except OSError as error:
            raise OutputFailed(f"{error.filename}: {error.strerror}", hint=_hint_for(error)) from None
        if lock is None:
            raise DatabaseBusy(path)
        if os.path.exists(os.path.join(hidden, "lock")):
            return lock
        lock.release()


def _hint_for(error: OSError) -> str | None:
    """Return what helps if a file cannot be opened or created; None if the disk is full."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return None if is_full else "check the permissions there, or name another file"
