"""Rows of SQLite tables: which to read, inserting them, and hiding what was redacted.

Never commits: the caller owns the transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from agh.core.events import MARKER_REDACTED, RawRow, Row, from_raw, to_raw
from agh.core.named_tuple import NamedTuple
from agh.store.schema import HAS_QUESTIONS, LANDMARK

REDACTIONS = f"SELECT content FROM events WHERE {LANDMARK} AND type = '{MARKER_REDACTED}'"
INSERT_EVENT = (
    "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) VALUES (?, ?, ?, ?, ?, ?)"
)
# The text of these rows fits into the heap. A longer one is mapped and unmapped each time: a quarter slower.
SPLICED_ROWS, SPLICED_BYTES = 100, 4 << 20


class Query(NamedTuple):
    """Which events to read: those that meet every condition."""

    types: tuple[str, ...] = ()
    agent: str | None = None
    turn: str | None = None
    since: str | None = None
    where: str | None = None
    sequences: tuple[int, ...] = ()

    def conditions(self) -> tuple[str, list[Any]]:
        """Return a WHERE clause and its values. Its first two marks are for the range of sequences."""
        terms = ["sequence > ?", "sequence <= ?"]
        values: list[Any] = []
        if self.types:
            terms.append(f"type IN ({','.join('?' * len(self.types))})")
            values += self.types
        for column, operator, value in (
            ("agent_name", "=", self.agent),
            ("turn_id", "=", self.turn),
            ("timestamp", ">=", self.since),
        ):
            if value is not None:
                terms.append(f"{column} {operator} ?")
                values.append(value)
        if self.where is not None:
            terms.append(f"({self.where}\n)")
        if self.sequences:
            terms.append(f"sequence IN ({','.join(map(str, self.sequences))})")
        return " AND ".join(terms), values


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any], verb: str = "INSERT") -> int:
    """Insert one row and return its rowid. The caller must have checked the table and column names."""
    cursor = connection.execute(f"{verb} INTO {_values(table, row)}", list(row.values()))
    return int(cursor.lastrowid or 0)


def upsert(connection: sqlite3.Connection, table: str, key: str, row: Mapping[str, Any]) -> None:
    """Insert one row, or change the row that has the same key in the columns that are named."""
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in row)
    sql = f'INSERT INTO {_values(table, row)} ON CONFLICT ("{key}") DO UPDATE SET {updates}'
    connection.execute(sql, list(row.values()))


def shown(connection: sqlite3.Connection, rows: list[Row]) -> list[Row]:
    """Return events as they may be shown: without the text of those that were redacted."""
    redactions = connection.execute(REDACTIONS).fetchall() if rows else []
    if not redactions:
        return rows
    from agh.core.redaction.hidden import hidden_sequences, hide  # few sessions have any

    hidden = hidden_sequences(content for (content,) in redactions)
    return [hide(row, is_first=hidden[row.sequence]) if row.sequence in hidden else row for row in rows]


def read_spliced(
    connection: sqlite3.Connection, sql: str, values: list[Any], splice: Callable[[list[RawRow]], bytes]
) -> tuple[bytes, int]:
    """Return what `splice` makes of the first rows of a query, and the last sequence it read.

    `values` begin with the range of sequences; if no row is left, its end is returned.
    """
    rows, size = [], 0
    try:
        connection.text_factory = bytes
        cursor = connection.execute(f"{sql} LIMIT {SPLICED_ROWS}", values)
        for row in cursor:
            rows.append(row)
            size += len(row[5])
            if size > SPLICED_BYTES:
                cursor.close()
                break
        connection.text_factory = str
        if rows and connection.execute(f"{REDACTIONS} LIMIT 1").fetchone():
            rows = [to_raw(row) for row in shown(connection, list(map(from_raw, rows)))]
        return splice(rows), rows[-1][0] if rows else values[1]
    except (AttributeError, TypeError):
        raise sqlite3.DatabaseError("a row has a value that is not a string") from None
    finally:
        connection.text_factory = str


def redact_tables(
    connection: sqlite3.Connection, turn_ids: list[str], call_ids: list[str], question_ids: list[str]
) -> None:
    """Hide the prompts of these turns, what was asked about these tool calls, and these questions.

    Requests that wait for an answer stay.
    """
    connection.executemany(
        "UPDATE inputs SET prompt = ? WHERE turn_id = ? AND status IN ('sent', 'failed', 'cancelled')",
        [('[{"type":"text","text":"[redacted]"}]', turn_id) for turn_id in turn_ids],
    )
    connection.executemany(
        "UPDATE permissions SET title = '[redacted]', resource = NULL, request = '{}' "
        "WHERE tool_call_id = ? AND status <> 'pending'",
        [(call_id,) for call_id in call_ids],
    )
    if (question_ids or call_ids) and connection.execute(HAS_QUESTIONS).fetchone():
        connection.executemany(
            "UPDATE questions SET message = '[redacted]', request = '{}', "
            "answer = iif(answer IS NULL, NULL, '\"[redacted]\"') "
            "WHERE (request_id = ? OR tool_call_id = ?) AND status = 'decided'",
            [*((id, None) for id in question_ids), *((None, id) for id in call_ids)],
        )


def _values(table: str, row: Mapping[str, Any]) -> str:
    columns = ", ".join(f'"{name}"' for name in row)
    return f'"{table}" ({columns}) VALUES ({", ".join("?" * len(row))})'
