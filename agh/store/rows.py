"""Inserting rows into SQLite tables. Never commits: the caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

INSERT_EVENT = (
    "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) VALUES (?, ?, ?, ?, ?, ?)"
)


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any], verb: str = "INSERT") -> int:
    """Insert one row and return its rowid. The caller must have checked the table and column names."""
    cursor = connection.execute(f"{verb} INTO {_values(table, row)}", list(row.values()))
    return int(cursor.lastrowid or 0)


def upsert(connection: sqlite3.Connection, table: str, key: str, row: Mapping[str, Any]) -> None:
    """Insert one row, or change the row that has the same key in the columns that are named."""
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in row)
    sql = f'INSERT INTO {_values(table, row)} ON CONFLICT ("{key}") DO UPDATE SET {updates}'
    connection.execute(sql, list(row.values()))


def _values(table: str, row: Mapping[str, Any]) -> str:
    columns = ", ".join(f'"{name}"' for name in row)
    return f'"{table}" ({columns}) VALUES ({", ".join("?" * len(row))})'
