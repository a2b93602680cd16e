"""Inserting rows into SQLite tables. Never commits: the caller owns the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

INSERT_LONG_EVENT = (  # with content in UTF-8
    "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) "
    "VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?)"
)
INSERT_EVENT = (
    "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) VALUES (?, ?, ?, ?, ?, ?)"
)


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any], verb: str = "INSERT") -> int:
    """Insert one row and return its rowid. The caller must have checked the table and column names."""
    columns = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" * len(row))
    cursor = connection.execute(f'{verb} INTO "{table}" ({columns}) VALUES ({marks})', list(row.values()))
    return int(cursor.lastrowid or 0)
