"""Writing events.db. Promises: only the holder of the session's lock can write; once `append` or a
`transaction` returns, its rows are on disk (WAL, synchronous=FULL); a batch is stored whole or not at all.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from agh.core.events import Draft, Row
from agh.errors import Bug, EventsNewer, SessionBusy, SessionMirrored, StoreFailed
from agh.home import Session, check_descriptors, free_bytes
from agh.store import schema
from agh.store.lock import Lock
from agh.store.reader import FILE, WRITTEN_HERE, Reader
from agh.store.rows import INSERT_EVENT

MIRROR_FILE = "mirror"  # in the directory of a session whose log another machine writes
LITTLE = 64 << 10  # bytes of room; a commit may need more
WAL_PAGES = 4000  # 16 MB before the WAL is folded in, so a long turn seldom waits for that
# SQLite copies a bound value, and copies it again to store it. To save memory, our own copy is freed
# between the two: let_go clears the row.
_INSERT_LONG_EVENT = (
    "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) "
    "VALUES (?, ?, ?, ?, CAST(? AS TEXT), let_go(?))"
)


class Writer:
    """The only writer of a session's log. It puts `agent_name` on every event."""

    def __init__(self, lock: Lock, agent_name: str, *, is_pulled: bool = False) -> None:
        if lock.fd < 0:
            raise SessionBusy(lock.session.id)
        if not is_pulled and os.path.exists(os.path.join(lock.session, MIRROR_FILE)):
            raise SessionMirrored(lock.session.id)
        self.lock = lock
        self.session_id = lock.session.id
        self.agent_name = agent_name
        Reader(lock.session).close()  # raises if the log is damaged, before a write makes it worse
        info = os.stat(os.path.join(lock.session, FILE))
        self._file = (info.st_dev, info.st_ino)
        self.connection = _connect(lock.session)
        WRITTEN_HERE.add(self._file)
        self._row: list[object] = []  # a long event, while it is being stored
        self.connection.create_function("let_go", 1, partial(_let_go, self._row))
        try:
            (version,) = self.connection.execute("PRAGMA user_version").fetchone()
            if version > schema.VERSION:
                raise EventsNewer(self.session_id, version, schema.VERSION)
            if version < schema.VERSION:
                schema.upgrade(self.connection)
            (self.last_sequence,) = self.connection.execute(
                "SELECT coalesce(max(sequence), 0) FROM events"
            ).fetchone()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise store_failed(self.lock.session, error) from error
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit everything written inside the block together when it ends, or nothing if it raises."""
        if self.lock.fd < 0:
            raise Bug("a write after the lock was released")
        previous_sequence = self.last_sequence
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException as error:
            self.last_sequence = previous_sequence
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError | sqlite3.DatabaseError):
                raise store_failed(self.lock.session, error) from error
            raise

    def append(self, drafts: Iterable[Draft]) -> list[Row]:
        """Store events in order and return them with their sequences. Joins an open transaction."""
        drafts = list(drafts)
        rows = [
            Row(number, draft.turn_id, draft.type, self.agent_name, draft.whole(), draft.timestamp)
            for number, draft in enumerate(drafts, start=self.last_sequence + 1)
        ]
        self.store(drafts)
        return rows

    def store(self, drafts: list[Draft]) -> None:
        """Store events in order, and empty the list. Joins an open transaction."""
        if not self.connection.in_transaction:
            with self.transaction():
                self.store(drafts)
                return
        drafts.reverse()
        while drafts:
            if drafts[-1].pieces:
                self._store_long(drafts)
            else:
                self.connection.executemany(INSERT_EVENT, self._short_rows(drafts))

    def _short_rows(self, drafts: list[Draft]) -> Iterator[tuple[object, ...]]:
        """Take drafts off the end of the list, up to a long one, and yield them as rows."""
        while drafts and not drafts[-1].pieces:
            type, turn_id, content, at, _ = drafts.pop()
            self.last_sequence += 1
            yield self.last_sequence, turn_id, type, self.agent_name, content, at

    def _store_long(self, drafts: list[Draft]) -> None:
        """Take the last draft off the list and store it, freeing its memory before SQLite writes it."""
        type, turn_id, _, at, pieces = drafts.pop()
        self.last_sequence += 1
        self._row[:] = self.last_sequence, turn_id, type, self.agent_name, b"".join(pieces), at
        del pieces
        self.connection.execute(_INSERT_LONG_EVENT, self._row)

    def close(self) -> None:
        """Fold the WAL into the main file and close it. The lock stays with its owner."""
        self.connection.close()
        WRITTEN_HERE.discard(self._file)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _let_go(row: list[object], at: str) -> str:
    """Free the row that SQLite has already copied, and return its last value."""
    row.clear()
    return at


def is_full(directory: str | os.PathLike[str]) -> bool:
    """Tell whether the disk has next to no room. A disk that cannot be asked is not full."""
    try:
        return free_bytes(directory) < LITTLE
    except OSError:
        return False


def store_failed(session: Session, cause: object) -> StoreFailed:
    """Return the error for a log that cannot be written. SQLite does not always say that the disk is full."""
    if getattr(cause, "sqlite_errorname", "").startswith("SQLITE_CANTOPEN"):
        check_descriptors()
    if is_full(session):
        cause = os.strerror(errno.ENOSPC)
    return StoreFailed(session.id, cause, hint=f"df -h {session.directory}")


def _connect(session: Session) -> sqlite3.Connection:
    connection = sqlite3.connect(
        os.path.join(session, FILE), isolation_level=None, timeout=5, cached_statements=64
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    except sqlite3.Error as error:
        connection.close()
        raise store_failed(session, error) from error
    return connection
