"""A copy of a session at one moment, also of a live one. Never writes the session.

Events are never changed, so all up to the last one of that moment are read in pages, later; the other
tables are read at once. The copy as a database is made by SQLite's backup, in one step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import orjson

from agh.core.events import Row
from agh.core.exchange import SCHEMA, TABLES, Copy
from agh.errors import OutputFailed
from agh.store import schema
from agh.store.reader import EVERYTHING, Reader
from agh.store.views import session_view

_OF_THIS_MACHINE = ("keeper", "launch", "attach", "attached_to", "attach_expires_at", "activity")


def copy(directory: str) -> Copy:
    with Reader(directory) as reader:
        last, tables = reader.snapshot(lambda: (reader.last_sequence(), _tables(reader)))
    session = {key: value for key, value in session_view(directory).items() if key not in _OF_THIS_MACHINE}
    session["last_sequence"] = last

    def rows() -> Iterator[Row]:
        with Reader(directory) as reader:
            after = 0
            while page := reader.page(EVERYTHING, after, last):
                yield from page
                after = page[-1].sequence

    return Copy(session, last, tables, rows, lambda path: _backup(directory, session, path))


def write_database(copy: Copy, path: str) -> None:
    """The copy's rows as a new database at `path`, an empty file."""
    target = sqlite3.connect(path, isolation_level=None)
    try:
        schema.create(target)
        target.execute("BEGIN")
        target.executemany(
            "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            copy.rows(),
        )
        for table, rows in copy.tables.items():
            for row in rows:
                insert(target, table, row)
        _describe(target, copy.session)
        target.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise OutputFailed(error) from error
    finally:
        target.close()


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any], verb: str = "INSERT") -> None:
    """One row of a table of ours, by the names of its columns, which the caller has checked."""
    columns = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" * len(row))
    connection.execute(f'{verb} INTO "{table}" ({columns}) VALUES ({marks})', list(row.values()))


def _backup(directory: str, session: dict[str, Any], path: str) -> None:
    target = sqlite3.connect(path, isolation_level=None)
    try:
        with Reader(directory) as reader:
            reader.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, readable from a read-only place
        ((last,),) = target.execute("SELECT coalesce(max(sequence), 0) FROM events").fetchall()
        _describe(target, session | {"last_sequence": last})
    except sqlite3.OperationalError as error:
        raise OutputFailed(error) from error
    finally:
        target.close()


def _describe(target: sqlite3.Connection, session: dict[str, Any]) -> None:
    target.execute("CREATE TABLE session (schema TEXT NOT NULL, meta TEXT NOT NULL)")
    target.execute("INSERT INTO session VALUES (?, ?)", [SCHEMA, orjson.dumps(session).decode()])


def _tables(reader: Reader) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for table in TABLES:
        names = [name for (name,) in reader.fetch("SELECT name FROM pragma_table_info(?)", [table])]
        rows = reader.fetch(f"SELECT {', '.join(names)} FROM {table} ORDER BY rowid")
        found[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return found
