"""A consistent copy of a session, live or not, for exporters. Never writes to the session.

Events never change, so they are read later, in pages, up to the last one at the moment of the copy; the
other tables are read at once. A database copy is made with SQLite's backup, in one step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from agh.core.events import Row
from agh.core.exchange import SCHEMA, TABLES, Snapshot
from agh.errors import OutputFailed
from agh.home import Session
from agh.store import schema
from agh.store.reader import EVERYTHING, Reader
from agh.store.rows import REDACTIONS, insert
from agh.store.views import session_view

# Fields that mean nothing on another machine.
_LOCAL_FIELDS = ("keeper", "launch", "attach", "attached_to", "attach_expires_at", "activity")


def copy(session: Session) -> Snapshot:
    """Copy the session as it is now. The events are read when the copy is used."""
    with Reader(session) as reader:
        last, tables, redactions = reader.snapshot(
            lambda: (reader.last_sequence(), _read_tables(reader), reader.fetch(REDACTIONS))
        )
    view = {key: value for key, value in session_view(session).items() if key not in _LOCAL_FIELDS}
    view["last_sequence"] = last

    def rows() -> Iterator[Row]:
        with Reader(session) as reader:
            after = 0
            while page := reader.page(EVERYTHING, after, last):
                yield from page
                after = page[-1].sequence

    snapshot = Snapshot(view, last, tables, rows, lambda path: _backup(session, view, path))
    if redactions:  # a backup would have what they hide
        return replace(snapshot, database=lambda path: write_database(snapshot, path))
    return snapshot


def write_database(snapshot: Snapshot, path: str) -> None:
    """Write the copy's rows into a new database at `path`, which is an empty file."""
    from agh.store.bulk import Bulk  # slow to import, and most exports do not need it

    target = sqlite3.connect(path, isolation_level=None)
    try:
        schema.create(target)
        target.execute("BEGIN")
        bulk = Bulk(target)
        for row in snapshot.rows():
            bulk.add_event(row)
        for table, rows in snapshot.tables.items():
            for fields in rows:
                bulk.add(table, fields)
        bulk.flush()
        _add_description(target, snapshot.session)
        target.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise OutputFailed(error) from error
    finally:
        target.close()


def _backup(session: Session, view: dict[str, Any], path: str) -> None:
    target = sqlite3.connect(path, isolation_level=None)
    try:
        with Reader(session) as reader:
            reader.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, readable from a read-only directory
        ((last,),) = target.execute("SELECT coalesce(max(sequence), 0) FROM events").fetchall()
        _add_description(target, view | {"last_sequence": last})
    except sqlite3.OperationalError as error:
        raise OutputFailed(error) from error
    finally:
        target.close()


def _add_description(target: sqlite3.Connection, view: dict[str, Any]) -> None:
    """Add the table that tells an importer which session this is."""
    target.execute("CREATE TABLE session (schema TEXT NOT NULL, meta TEXT NOT NULL)")
    insert(target, "session", {"schema": SCHEMA, "meta": orjson.dumps(view).decode()})


def _read_tables(reader: Reader) -> dict[str, list[dict[str, Any]]]:
    tables = {}
    for table in TABLES:
        names = [name for (name,) in reader.fetch("SELECT name FROM pragma_table_info(?)", [table])]
        rows = reader.fetch(f"SELECT {', '.join(names)} FROM {table} ORDER BY rowid") if names else []
        tables[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return tables
