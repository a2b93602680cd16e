"""Reading events.db. Promises: works while a keeper writes and after a kill left a hot WAL; leaves no
files behind; each kind of damage has its own error. Never writes the log.

A log with a WAL beside it is opened with `mode=ro` (SQLite may rebuild the WAL's index). A log without
one has no writer: it is opened as immutable, which leaves no -wal or -shm behind, and after each read the
file's stamp is checked, in case a keeper has started since. Rows are fetched in pages, so that a blocked
stdout never holds a read transaction open, which would keep the WAL from being checkpointed.
"""

from __future__ import annotations

import _thread
import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from agh.core.events import RawRow, Row
from agh.errors import (
    EventsDamaged,
    EventsEmpty,
    EventsMissing,
    EventsNewer,
    EventsNotADatabase,
    EventsNotAFile,
    EventsUnreadable,
    QueryStopped,
    Usage,
)
from agh.home import Session, check_descriptors
from agh.store.rows import Query as Query
from agh.store.rows import read_spliced, shown
from agh.store.schema import APPLICATION_ID, QUESTIONS_SINCE, VERSION

FILE = "events.db"
PAGE_ROWS, PAGE_BYTES, NO_LIMIT = 1000, 4 << 20, (1 << 63) - 1
_COLUMNS = "sequence, turn_id, type, agent_name, content, timestamp"
_BUSY_SECONDS = 5.0
QUERY_LIMIT = 300.0  # seconds for a query with a user's expression
_STEPS = 50_000  # of SQLite's machine between two looks at the clock

# What runs in this thread for somebody else: its attribute `stop`, a function, tells its queries to stop.
this_thread = _thread._local()

# Logs that a Writer of this process has open, by device and inode. Opening such a file without SQLite and
# closing it again would give up SQLite's locks on it (they belong to the process, not to the descriptor).
# Another program could then take itself for the last one that uses the log, and delete its WAL.
WRITTEN_HERE: set[tuple[int, int]] = set()

T = TypeVar("T")
EVERYTHING = Query()


class Reader:
    """A read-only connection to a session's log."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.session_id = session.id
        self.path = os.path.join(session, FILE)
        self._stamp: tuple[int, ...] | None = None
        self._is_stopped: Callable[[], bool] = bool
        self._in_snapshot = False
        self._connection = self._open()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Run one SELECT and return all its rows."""
        return self._consistent(lambda: self._connection.execute(sql, values).fetchall())

    def backup(self, target: sqlite3.Connection) -> None:
        """Copy the whole log, as of one moment, into an empty database."""
        self._connection.backup(target)
        while self._reopen_if_changed():
            self._connection.backup(target)

    def snapshot(self, read: Callable[[], T]) -> T:
        """Call `read` so that all its fetches see the log at the same moment, and return its result."""

        def read_in_transaction() -> T:
            self._in_snapshot = True
            try:
                with self._connection:  # commits
                    if self._stamp is None:  # else it is immutable, or read again if it changes all the same
                        self._connection.execute("BEGIN")
                    return read()
            finally:
                self._in_snapshot = False

        return read() if self._in_snapshot else self._consistent(read_in_transaction)

    def last_sequence(self) -> int:
        return int(self.fetch("SELECT coalesce(max(sequence), 0) FROM events")[0][0])

    def page(self, query: Query, after: int, until: int, limit: int = PAGE_ROWS) -> list[Row]:
        """Return the first matching rows with after < sequence <= until; fewer than `limit` if large."""
        terms, values = query.conditions()
        sql = f"SELECT {_COLUMNS} FROM events WHERE {terms} ORDER BY sequence LIMIT {limit}"
        return self._select(query, sql, [after, until, *values], PAGE_BYTES)

    def newest(self, query: Query, count: int, after: int = 0, until: int | None = None) -> list[Row]:
        """Return the newest `count` matching rows with after < sequence <= until, in ascending order."""
        terms, values = query.conditions()
        sql = f"SELECT {_COLUMNS} FROM events WHERE {terms} ORDER BY sequence DESC LIMIT {count}"
        until = self.last_sequence() if until is None else until
        return self._select(query, sql, [after, until, *values])[::-1]

    def pages(self, query: Query = EVERYTHING, after: int = 0) -> Iterator[list[Row]]:
        """Yield all matching rows up to the current end of the log, page by page."""
        until = self.last_sequence()
        while rows := self.page(query, after, until):
            yield rows
            after = rows[-1].sequence

    def all_rows(self, query: Query, after: int = 0, *, any_redacted: bool = True) -> list[Row]:
        """Return all matching rows at once, with one query; `rows` needs three, even if there are few."""
        terms, values = query.conditions()
        sql = f"SELECT {_COLUMNS} FROM events WHERE {terms} ORDER BY sequence"
        return self._select(query, sql, [after, NO_LIMIT, *values], any_redacted=any_redacted)

    def rows(self, query: Query = EVERYTHING, after: int = 0) -> Iterator[Row]:
        """Yield all matching rows up to the current end of the log."""
        for page in self.pages(query, after):
            yield from page

    def spliced(
        self, splice: Callable[[list[RawRow]], bytes], query: Query = EVERYTHING, after: int = 0
    ) -> Iterator[bytes]:
        """Yield what `splice` makes of the rows of `pages`, a few at a time."""
        until = self.last_sequence()
        terms, values = query.conditions()
        sql = f"SELECT sequence, {_COLUMNS} FROM events WHERE {terms} ORDER BY sequence"

        def read() -> tuple[bytes, int]:
            return read_spliced(self._connection, sql, [after, until, *values], splice)

        if query.where is not None:
            self._check_where(query.where)
        while after < until:
            text, after = self._consistent(read, query.where is not None)
            yield text

    def _select(
        self,
        query: Query,
        sql: str,
        values: list[Any],
        max_bytes: int | None = None,
        any_redacted: bool = True,
    ) -> list[Row]:
        def read() -> list[Row]:
            cursor = self._connection.execute(sql, values)
            rows, size = [], 0
            for row in cursor:
                if not str is type(row[1]) is type(row[2]) is type(row[3]) is type(row[4]) is type(row[5]):
                    raise sqlite3.DatabaseError(f"row {row[0]} has a value that is not a string")
                rows.append(Row._make(row))
                size += len(row[4])
                if max_bytes is not None and size > max_bytes:
                    cursor.close()
                    break
            return shown(self._connection, rows) if any_redacted else rows

        if query.where is not None:
            self._check_where(query.where)
        return self._consistent(read, query.where is not None)

    def _check_where(self, where: str) -> None:
        """Refuse text that is not one expression, such as one that closes our bracket."""
        sql = f"SELECT CASE WHEN {where}\n THEN 1 END FROM events LIMIT 0"
        self._consistent(lambda: self._connection.execute(sql).close(), True)

    def _consistent(self, read: Callable[[], T], has_user_sql: bool = False) -> T:
        """Call `read`, again if the log changed meanwhile, and return its result or raise our own error."""
        if self._in_snapshot:
            return read()  # the snapshot around it checks whether the log changed
        if has_user_sql or hasattr(this_thread, "stop"):
            self._limit_queries()
        while True:
            try:
                result = read()
            except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
                if self._reopen_if_changed():
                    continue
                raise self._translate(error, has_user_sql) from None
            if not self._reopen_if_changed():
                return result

    def _limit_queries(self) -> None:
        """Let queries be stopped by their time, by who runs them, and by Ctrl-C."""
        deadline, stop = time.monotonic() + QUERY_LIMIT, getattr(this_thread, "stop", bool)
        self._is_stopped = lambda: time.monotonic() > deadline or stop()
        self._connection.set_progress_handler(self._is_stopped, _STEPS)

    def _translate(self, error: Exception, has_user_sql: bool) -> BaseException:
        """Return the error to raise for an SQLite error."""
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_INTERRUPT":  # if not by us, then by the KeyboardInterrupt that was raised in there
            return QueryStopped() if self._is_stopped() else KeyboardInterrupt()
        if has_user_sql and (
            name in ("SQLITE_ERROR", "SQLITE_TOOBIG")
            or isinstance(error, sqlite3.Warning | sqlite3.ProgrammingError)
        ):
            columns = "sequence, id, turn_id, type, agent_name, content, timestamp"
            return Usage(f"--where: {error}", hint=f"columns: {columns}; fields: content->>'$.text'")
        if isinstance(error, sqlite3.ProgrammingError):
            return error
        if name.startswith("SQLITE_CANTOPEN"):
            check_descriptors()
        if isinstance(error, sqlite3.OperationalError) and name not in ("", "SQLITE_ERROR"):
            return EventsUnreadable(self.session_id, error)
        return EventsDamaged(self.session_id, error)

    def _reopen_if_changed(self) -> bool:
        """Open the log again if it was opened as immutable and has changed; tell whether it was."""
        if self._stamp is None or self._stamp == self._current_stamp():
            return False
        self._connection.close()
        self._connection = self._open()
        return True

    def _open(self) -> sqlite3.Connection:
        version = self._check_header()
        self._stamp = self._current_stamp()
        mode = "mode=ro" if self._stamp is None else "immutable=1"
        connection = None
        try:
            uri = f"file:{escape_uri_path(self.path)}?{mode}"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
            if self._stamp is None or version is None:
                version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error as error:
            if connection:
                connection.close()
            raise self._translate(error, False) from None
        if version > VERSION:
            connection.close()
            raise EventsNewer(self.session_id, version, VERSION)
        self.has_questions = version >= QUESTIONS_SINCE
        return connection

    def _current_stamp(self) -> tuple[int, ...] | None:
        """Return a stamp that changes when the main file is written, or None while there is a WAL."""
        if os.access(self.path + "-wal", os.F_OK):  # raises no error inside, as os.path.exists does
            return None
        try:
            info = os.stat(self.path)
        except OSError:
            return ()  # deleted: opening it again raises the right error
        return info.st_ino, info.st_size, info.st_mtime_ns

    def _check_header(self) -> int | None:
        """Return the log's version; raise the error for any damage that shows in its header or its size."""
        try:
            info = os.lstat(self.path)
            if not stat.S_ISREG(info.st_mode):
                raise EventsNotAFile(self.session_id)
            if (info.st_dev, info.st_ino) in WRITTEN_HERE:
                return None  # its Writer has checked it
            with open(self.path, "rb", buffering=0) as file:
                header = file.read(100)
        except FileNotFoundError:
            raise EventsMissing(self.session_id) from None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            raise EventsUnreadable(self.session_id, error.strerror) from None
        if not header:
            raise EventsEmpty(self.session_id)
        if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
            raise EventsNotADatabase(self.session_id)
        page_size, page_count = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
        version, application = int.from_bytes(header[60:64]), int.from_bytes(header[68:72])
        if application != APPLICATION_ID:
            raise EventsNotADatabase(self.session_id)
        if version > VERSION:
            raise EventsNewer(self.session_id, version, VERSION)
        if info.st_size < page_size * page_count and not os.path.exists(self.path + "-wal"):
            # The size was read before the header, perhaps while a WAL was being folded in. There is none
            # now, so the size is final.
            missing = page_size * page_count - os.stat(self.path).st_size
            if missing > 0:
                raise EventsDamaged(self.session_id, f"it is cut short by {missing} bytes")
        return version


def escape_uri_path(path: str) -> str:
    """Escape a path for a file: URI. urllib.parse could do it, but is slow to import."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
