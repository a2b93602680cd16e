"""Writing many rows into a log at once, with sqlite-utils: for import and export. Never commits.

A keeper does not use this. It writes a few rows at a time, for which importing sqlite-utils takes longer
than writing them. A batch is bounded in bytes too; a very long row is a batch of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from sqlite_utils import Database

from agh.core.events import Row
from agh.core.exchange import LongRow

BATCH_ROWS, BATCH_CHARACTERS = 1_000, 1 << 20
_COLUMNS = ("sequence", "turn_id", "type", "agent_name", "content", "timestamp")
_FROM_UTF8 = {"content": "CAST(? AS TEXT)"}


class Bulk:
    """Rows for the tables of one database. `flush` writes what is left of the last batch."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = Database(connection, execute_plugins=False)
        self._table, self._columns = "", tuple[str, ...]()
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0

    def add_event(self, row: Row | LongRow) -> None:
        """Add an event. One with very long content is written at once."""
        if isinstance(row, LongRow):
            self.flush()
            self._db.table("events").insert_all([_COLUMNS, row], conversions=_FROM_UTF8)
        else:
            self._add("events", _COLUMNS, row, len(row.content))

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row of another table; it replaces the one with the same key."""
        size = sum(len(value) for value in row.values() if isinstance(value, str))
        self._add(table, tuple(row), tuple(row.values()), size)

    def flush(self) -> None:
        """Write the batch."""
        rows, self._rows, self._size = self._rows, [], 0
        if rows:
            replace = self._table != "events"
            table = self._db.table(self._table)
            table.insert_all([self._columns, *rows], batch_size=BATCH_ROWS, replace=replace)

    def _add(self, table: str, columns: tuple[str, ...], row: tuple[Any, ...], size: int) -> None:
        if (self._table, self._columns) != (table, columns) or self._size + size > BATCH_CHARACTERS:
            self.flush()
            self._table, self._columns = table, columns
        self._rows.append(row)
        self._size += size
        if len(self._rows) >= BATCH_ROWS or size > BATCH_CHARACTERS:
            self.flush()
