"""Reading events.db. Promises: never writes it, works while a keeper writes and after a kill left a hot
WAL, leaves no file behind; every kind of damage has its own error.

A log with a WAL beside it is opened `mode=ro` (SQLite may make the WAL's index anew). A log without one
has no writer: it is opened as immutable, which leaves no -wal and -shm behind, and each answer is
checked against the file's stamp, in case a keeper came meanwhile. Rows are fetched in pages, so that a
blocked stdout never holds a read transaction open (the WAL could not be checkpointed below it).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from agh.core.events import Row
from agh.errors import (
    EventsDamaged,
    EventsEmpty,
    EventsMissing,
    EventsNewer,
    EventsNotADatabase,
    EventsNotAFile,
    EventsUnreadable,
    Usage,
)
from agh.store.schema import APPLICATION_ID, VERSION

FILE = "events.db"
PAGE_ROWS, PAGE_BYTES = 1000, 4 << 20
_COLUMNS = "sequence, turn_id, type, agent_name, content, timestamp"
_BUSY_MS = 5000

T = TypeVar("T")


class Query(NamedTuple):
    """Which events: every condition that is given must hold."""

    types: tuple[str, ...] = ()
    agent: str | None = None
    turn: str | None = None
    since: str | None = None
    where: str | None = None

    def conditions(self) -> tuple[str, list[Any]]:
        terms = ["sequence > ?", "sequence <= ?"]
        values: list[Any] = []
        if self.types:
            terms.append(f"type IN ({','.join('?' * len(self.types))})")
            values += self.types
        for column, test, value in (
            ("agent_name", "=", self.agent),
            ("turn_id", "=", self.turn),
            ("timestamp", ">=", self.since),
        ):
            if value is not None:
                terms.append(f"{column} {test} ?")
                values.append(value)
        if self.where is not None:
            terms.append(f"({self.where}\n)")
        return " AND ".join(terms), values


EVERYTHING = Query()


class Reader:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.session_id = os.path.basename(directory)
        self.path = os.path.join(directory, FILE)
        self._stamp: tuple[int, ...] | None = None
        self._connection = self._open()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """All rows of one statement."""
        return self._steady(lambda: self._connection.execute(sql, values).fetchall())

    def backup(self, target: sqlite3.Connection) -> None:
        """Copy the whole log, as it is at one moment, into an empty database."""
        self._connection.backup(target)
        while self._moved():
            self._connection.backup(target)

    def snapshot(self, read: Callable[[], T]) -> T:
        """What `read` gives when every fetch inside it sees the same moment of the log."""

        def within() -> T:
            if self._connection.in_transaction:
                return read()
            self._connection.execute("BEGIN")
            try:
                return read()
            finally:
                self._connection.execute("COMMIT")

        return self._steady(within)

    def last_sequence(self) -> int:
        return int(self.fetch("SELECT coalesce(max(sequence), 0) FROM events")[0][0])

    def page(self, query: Query, after: int, until: int, limit: int = PAGE_ROWS) -> list[Row]:
        """The first matching rows with after < sequence <= until; fewer than `limit` if they are large."""
        terms, values = query.conditions()
        sql = f"SELECT {_COLUMNS} FROM events WHERE {terms} ORDER BY sequence LIMIT {limit}"
        return self._rows(query, sql, [after, until, *values], PAGE_BYTES)

    def newest(self, query: Query, count: int, after: int = 0) -> list[Row]:
        """The newest `count` matching rows, in ascending order."""
        terms, values = query.conditions()
        sql = f"SELECT {_COLUMNS} FROM events WHERE {terms} ORDER BY sequence DESC LIMIT {count}"
        return self._rows(query, sql, [after, self.last_sequence(), *values])[::-1]

    def pages(self, query: Query = EVERYTHING, after: int = 0) -> Iterator[list[Row]]:
        """Every matching row that is there now, page by page."""
        until = self.last_sequence()
        while rows := self.page(query, after, until):
            yield rows
            after = rows[-1].sequence

    def rows(self, query: Query = EVERYTHING, after: int = 0) -> Iterator[Row]:
        for page in self.pages(query, after):
            yield from page

    def _rows(self, query: Query, sql: str, values: list[Any], max_bytes: int | None = None) -> list[Row]:
        def read() -> list[Row]:
            cursor = self._connection.execute(sql, values)
            rows, size = [], 0
            for found in cursor:
                if (
                    not str
                    is type(found[1])
                    is type(found[2])
                    is type(found[3])
                    is type(found[4])
                    is type(found[5])
                ):
                    raise sqlite3.DatabaseError(f"row {found[0]} holds something that is not text")
                rows.append(Row._make(found))
                size += len(found[4])
                if max_bytes is not None and size > max_bytes:
                    cursor.close()
                    break
            return rows

        if query.where is not None:
            self._check_where(query.where)
        return self._steady(read, query.where is not None)

    def _check_where(self, where: str) -> None:
        """Refuse what is not one expression: here a bracket that it closes is not ours."""
        sql = f"SELECT CASE WHEN {where}\n THEN 1 END FROM events LIMIT 0"
        self._steady(lambda: self._connection.execute(sql).close(), True)

    def _steady(self, read: Callable[[], T], theirs: bool = False) -> T:
        """What `read` gives, read again if the log moved below it. `theirs`: the SQL has the user's words."""
        if self._connection.in_transaction:
            return read()  # the snapshot around it looks whether the log moved
        while True:
            try:
                result = read()
            except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
                if self._moved():
                    continue
                raise self._named(error, theirs) from None
            if not self._moved():
                return result

    def _named(self, error: Exception, theirs: bool) -> Exception:
        name = getattr(error, "sqlite_errorname", "")
        if theirs and (
            name in ("SQLITE_ERROR", "SQLITE_TOOBIG")
            or isinstance(error, sqlite3.Warning | sqlite3.ProgrammingError)
        ):
            columns = "sequence, id, turn_id, type, agent_name, content, timestamp"
            return Usage(f"--where: {error}", hint=f"columns: {columns}; or content->>'$.text'")
        if isinstance(error, sqlite3.ProgrammingError):
            return error
        if isinstance(error, sqlite3.OperationalError) and name not in ("", "SQLITE_ERROR"):
            return EventsUnreadable(self.session_id, error)
        return EventsDamaged(self.session_id, error)

    def _moved(self) -> bool:
        """Whether an immutable log turned out to have a writer; then the connection is a new one."""
        if self._stamp is None or self._stamp == self._current_stamp():
            return False
        self._connection.close()
        self._connection = self._open()
        return True

    def _open(self) -> sqlite3.Connection:
        self._check_header()
        self._stamp = self._current_stamp()
        mode = "mode=ro" if self._stamp is None else "immutable=1"
        connection = None
        try:
            connection = sqlite3.connect(
                f"file:{escape_uri_path(self.path)}?{mode}", uri=True, isolation_level=None, timeout=_BUSY_MS / 1000
            )
            version = VERSION if self._stamp else connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            if connection:
                connection.close()
            raise self._named(error, False) from None
        if version > VERSION:
            connection.close()
            raise EventsNewer(self.session_id, version, VERSION)
        return connection

    def _current_stamp(self) -> tuple[int, ...] | None:
        """What changes when anyone writes the main file; None while there is a WAL."""
        if os.path.exists(self.path + "-wal"):
            return None
        try:
            found = os.stat(self.path)
        except OSError:
            return ()  # gone: opening it again names the reason
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _check_header(self) -> None:
        """Name the damage that the first 100 bytes and the file's size show."""
        try:
            found = os.lstat(self.path)
            if not stat.S_ISREG(found.st_mode):
                raise EventsNotAFile(self.session_id)
            with open(self.path, "rb") as file:
                header = file.read(100)
        except FileNotFoundError:
            raise EventsMissing(self.session_id) from None
        except OSError as error:
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
        if found.st_size < page_size * page_count and not os.path.exists(self.path + "-wal"):
            # The size is of before the header. Now that there is no WAL, whoever folded one in is done.
            missing = page_size * page_count - os.stat(self.path).st_size
            if missing > 0:
                raise EventsDamaged(self.session_id, f"it is cut short by {missing} bytes")


def escape_uri_path(path: str) -> str:
    """Escape a path for a file: URI. urllib.parse could do it, but is slow to import."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
