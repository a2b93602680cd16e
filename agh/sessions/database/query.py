"""Running a query on the database. Promises: reads only; ends at its time limit, and on Ctrl-C."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from agh.errors import DatabaseDamaged, TimedOut, Usage
from agh.sessions.database.file import open_to_read

CHECK_EVERY = 20_000  # instructions of SQLite's machine: a few milliseconds
FETCH_ROWS = 500
_HINT = "tables and columns: agh db query 'SELECT sql FROM sqlite_master'"


class Query:
    """A query that has started: the names of its columns, and its rows as they are computed."""

    def __init__(self, path: str, sql: str, seconds: float | None = None) -> None:
        self._path, self._seconds = path, seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._connection = open_to_read(path)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # what is attached may be written
        self._connection.set_progress_handler(self._is_late, CHECK_EVERY)
        try:
            self._cursor = self._connection.execute(sql)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._translate(error) from None
        self.columns = _distinct([column[0] for column in self._cursor.description or ()])

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, then close the database."""
        try:
            while rows := self._cursor.fetchmany(FETCH_ROWS):
                yield from rows
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._translate(error) from None
        finally:
            self._connection.close()

    def _is_late(self) -> bool:
        """Tell SQLite whether to stop. Python handles a Ctrl-C when this is called, and SQLite then stops."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def _translate(self, error: Exception) -> BaseException:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_INTERRUPT":
            if not self._is_late():
                return KeyboardInterrupt()
            return TimedOut("the query", self._seconds, hint="allow more time with --timeout")
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            return DatabaseDamaged(self._path, error)
        return Usage(f"SQL: {error}", hint=_HINT)


def _distinct(names: list[str]) -> list[str]:
    """Number the columns that have the name of an earlier one: id, id_2."""
    distinct: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in distinct:
            number += 1
            candidate = f"{name}_{number}"
        distinct.append(candidate)
    return distinct
