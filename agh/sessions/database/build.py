"""Building the database, and bringing it up to date.

Promises: a new file appears under its name only when it is complete; an existing one changes in one
transaction, so that a kill leaves the old content; a file that agh did not build is never touched; a live
session is read as of one moment; sessions deleted from the home are deleted here too. A damaged session is
reported, and what was read of it earlier stays.

A session is read again when its log or its metadata has changed, from its last prompt on.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlite_utils import Database

from agh import __version__
from agh.adapters.redactions import redactor_for
from agh.core.events import Row, timestamp
from agh.core.redaction.redacted import redact_table_row, redacted_rows
from agh.core.status import LIVE_STATES
from agh.errors import DatabaseBusy, DatabaseDamaged, DatabaseRedacted, DataDamaged, OutputFailed
from agh.home import Session, home_path, session_of
from agh.sessions.database import schema
from agh.sessions.database.collect import Collector, end_of_call, seconds_between, session_fields
from agh.sessions.database.file import check, connect, new_file
from agh.sessions.database.sources import changes, stamp
from agh.sessions.database.state import read_state, write_state
from agh.sessions.export import environ_of
from agh.store.reader import EVERYTHING, Reader
from agh.store.rows import REDACTIONS
from agh.store.search.index import Progress, silent
from agh.store.views import View, session_view

FEED_ROWS = 1_000
FLUSH_SIZE = 5_000  # rows, or as many thousand characters
GRAIN = 50_000_000  # nanoseconds within which a file can change without a new mtime
OPTIMIZE_FROM = 100  # sessions read in one build


@dataclass
class Report:
    """How many sessions of the home were read, skipped or deleted, and the errors of the damaged ones."""

    path: str
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    damaged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """A session of the home, and how far it was read last time."""

    session_id: str
    number: int
    start: int = 1
    start_at: str = ""


def build(
    path: str,
    session_ids: Sequence[str] | None = None,
    *,
    since: str | None = None,
    redact: bool = False,
    progress: Progress = silent,
) -> Report:
    """Create the database or bring it up to date: these sessions (default: all), changed since a time.

    A database that was built with `redact` stays redacted.
    """
    report = Report(path)
    try:
        with _open(path, redact) as db:
            stale, deleted, report.unchanged = changes(db.conn)
            for session_id in deleted:
                _delete(db, session_id)
            report.deleted = len(deleted)
            if session_ids is not None:
                stale = [session_id for session_id in stale if session_id in session_ids]
                report.unchanged = len(session_ids) - len(stale)
            (hide,) = db.conn.execute("SELECT redacted FROM agh_build").fetchone()
            for session_id in progress(stale, len(stale)):
                _update(db, session_id, since, bool(hide), report)
            if report.updated >= OPTIMIZE_FROM:
                schema.optimize(db)
            values = {"built_at": timestamp(), "agh_version": __version__}
            db.table("agh_build").update(1, values)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith("SQLITE_BUSY"):
            raise DatabaseBusy(path) from None
        raise OutputFailed(f"{path}: {error}") from None
    except sqlite3.DatabaseError as error:
        if type(error) is not sqlite3.DatabaseError:
            raise
        raise DatabaseDamaged(path, error) from None
    return report


@contextmanager
def _open(path: str, redact: bool) -> Iterator[Database]:
    """Open the database in a transaction that is committed when the block ends without an error."""
    if not check(path):
        with new_file(path) as fresh, closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = MEMORY")  # a killed build is thrown away whole
            connection.execute("PRAGMA synchronous = OFF")  # the finished file is synced before it is named
            connection.execute("PRAGMA cache_size = -65536")
            db = Database(connection, execute_plugins=False)
            connection.execute("BEGIN")
            schema.create(db, redacted=redact)
            yield db
            connection.execute("COMMIT")
        return
    with closing(connect(path, "rw")) as connection:
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("BEGIN IMMEDIATE")
        (is_redacted,) = connection.execute("SELECT redacted FROM agh_build").fetchone()
        if redact and not is_redacted:
            raise DatabaseRedacted(path)
        yield Database(connection, execute_plugins=False)
        connection.execute("COMMIT")


def _update(db: Database, session_id: str, since: str | None, hide: bool, report: Report) -> None:
    """Read one session again, or report that it is damaged and leave its rows as they were."""
    session = session_of(session_id)
    try:
        view = session_view(session)
        if since is not None and str(view.get("updated_at")) < since:
            report.unchanged += 1
            return
        with db.atomic():
            _read_session(db, session, view, hide)
        report.updated += 1
    except DataDamaged as error:
        if os.path.isdir(session):  # not one that was deleted meanwhile
            report.damaged.append(error.message)


def _read_session(db: Database, session: Session, view: View, hide: bool) -> None:
    read_at = time.time_ns()
    stamped, changed_at = stamp(session.directory)
    if read_at - changed_at <= GRAIN or view["state"] in LIVE_STATES:
        stamped = ""  # it may change without a new stamp
    source = _source(db, session.id)
    redact = redactor_for(environ_of(view), view.get("workspace_path")) if hide else None
    with Reader(session) as reader:
        last, state = reader.snapshot(lambda: (reader.last_sequence(), read_state(reader)))
        start = source.start if _is_same_log(reader, source) else 1
        _delete_events(db, source.session_id, start)
        sql = "SELECT turn_id, id FROM turns WHERE session_id = ?"
        turns = dict(db.conn.execute(sql, [source.session_id]))
        collector = Collector(source.session_id, source.number, start, source.start_at, turns)
        rows = _rows(reader, start - 1, last)
        if redact is not None:
            rows = redacted_rows(rows, redact)
        while batch := list(islice(rows, FEED_ROWS)):
            collector.feed(batch)
            if collector.size > FLUSH_SIZE:
                _flush(db, collector)
    start, start_at = collector.start, collector.at
    collector.finish()
    _flush(db, collector)
    if redact is not None:
        state = {name: [redact_table_row(row, redact) for row in rows] for name, rows in state.items()}
    write_state(db, source.session_id, turns, state)
    fields = session_fields(redact.json(view) if redact else view, last)
    db.table("sessions").upsert({**fields, "id": source.session_id}, pk="id")
    position = {"home": home_path(), "stamp": stamped, "start": start, "start_at": start_at}
    db.table("agh_sources").upsert(
        {"session_id": source.session_id, "number": source.number, **position}, pk="session_id"
    )


def _source(db: Database, session_id: str) -> Source:
    sql = "SELECT session_id, number, start, start_at FROM agh_sources WHERE session_id = ?"
    row = db.conn.execute(sql, [session_id]).fetchone()
    if row is not None:
        return Source(*row)
    (number,) = db.conn.execute("SELECT coalesce(max(number), 0) + 1 FROM agh_sources").fetchone()
    return Source(session_id, number)


def _is_same_log(reader: Reader, source: Source) -> bool:
    """Tell whether what was read before the prompt to start from still holds."""
    first = reader.page(EVERYTHING, source.start - 1, source.start)
    since = reader.fetch(f"{REDACTIONS} AND sequence >= ? LIMIT 1", [source.start])
    return not since and [row.timestamp for row in first] == [source.start_at]


def _rows(reader: Reader, after: int, until: int) -> Iterator[Row]:
    while page := reader.page(EVERYTHING, after, until):
        yield from page
        after = page[-1].sequence


def _flush(db: Database, collector: Collector) -> None:
    """Write the rows that the collector has, then what it has found out about earlier rows."""
    for name, rows in collector.take().items():
        if rows:
            db.table(name).insert_all([tuple(schema.TABLES[name]), *rows], batch_size=1_000)
    for name, fields in collector.late:
        if name == "turns":
            _end_turn(db, fields)
        else:
            _end_call(db, fields)
    for sequence, fields in collector.hidden:
        sql = "UPDATE markers SET redacted = 1, diagnostic = NULL, kind = coalesce(?, kind), summary = ? "
        values = [fields["kind"], fields["summary"], collector.session_id, sequence]
        db.conn.execute(sql + "WHERE session_id = ? AND sequence = ?", values)
    collector.late.clear()
    collector.hidden.clear()


def _end_turn(db: Database, fields: dict[str, Any]) -> None:
    (started_at, ended_at), *_ = db.conn.execute(
        "SELECT started_at, ended_at FROM turns WHERE id = ?", [fields["id"]]
    ).fetchall() or [("", "")]
    if not ended_at:
        values = {key: fields[key] for key in ("ended_at", "stop_reason", "error")}
        values |= {"last_sequence": fields["sequence"]}
        values |= {"seconds": seconds_between(started_at, fields["ended_at"])}
        db.table("turns").update(fields["id"], values)


def _end_call(db: Database, result: dict[str, Any]) -> None:
    """Join a result to its call, which an earlier prompt made."""
    sql = "SELECT id, started_at FROM tool_calls WHERE turn IS ? AND session_id = ? AND tool_call_id = ?"
    values = [result["turn"], result["session_id"], result["tool_call_id"]]
    for call, started_at in db.conn.execute(sql, values).fetchall():
        db.table("tool_results").update(result["id"], {"tool_call": call})
        db.table("tool_calls").update(call, end_of_call(started_at, result))


def _delete_events(db: Database, session_id: str, start: int) -> None:
    """Delete the rows of the events from `start` on."""
    for name in schema.EVENT_TABLES:
        sql = f"DELETE FROM {name} WHERE session_id = ? AND sequence >= ?"
        db.conn.execute(sql, [session_id, start])


def _delete(db: Database, session_id: str) -> None:
    """Delete a session that is no longer in the home."""
    _delete_events(db, session_id, 0)
    for name in (*schema.STATE_TABLES, "agh_sources"):
        db.conn.execute(f"DELETE FROM {name} WHERE session_id = ?", [session_id])
    db.conn.execute("DELETE FROM sessions WHERE id = ?", [session_id])
