"""Building an imported session, in one transaction, before it appears."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agh.core.exchange import TABLES, Record, TableRow, check_row
from agh.errors import AghError, SessionExists
from agh.home import Session
from agh.sessions.new import check_name
from agh.store import sessions
from agh.store.create import create_session, delete_leftovers, first_meta, publish
from agh.store.meta import Meta
from agh.store.writer import Writer

_INTEGERS = range(-(1 << 63), 1 << 63)


def build(
    session: Session,
    description: dict[str, Any],
    records: Iterable[Record],
    is_here: Callable[[], bool] = lambda: False,
) -> int:
    """Create a session and return how many events it has.

    The description is read after the records, so that what yields them can complete it. Raises SessionExists
    if there is one already, or if `is_here` says so just before it would appear.
    """
    delete_leftovers()
    with create_session(session.id) as lock:
        with Writer(lock, description["agent_name"]) as log:
            counts = fill(log, records)
        metadata = _metadata(session.id, description, counts)
        with sessions.lock_names():
            if metadata["name"] is not None:
                try:
                    check_name(metadata["name"], sessions.workspaces(metadata))
                except AghError:
                    metadata["name"] = None
            if is_here():
                raise SessionExists(session.id)
            publish(lock, metadata)
            lock.release()
    return counts["events"]


def fill(log: Writer, records: Iterable[Record]) -> dict[str, int]:
    """Write all records in one transaction; return how many events and turns there were."""
    from agh.store.bulk import Bulk  # slow to import, and an import often has nothing to write

    names = {
        table: {name for (name,) in log.connection.execute("SELECT name FROM pragma_table_info(?)", [table])}
        for table in TABLES
    }
    events, turns = 0, set[str]()
    with log.transaction() as connection:
        bulk = Bulk(connection)
        for record in records:
            if not isinstance(record, TableRow):
                bulk.add_event(check_row(record))
                events += 1
                turns.add(record.turn_id)
                continue
            if not record.row or not set(record.row) <= names[record.table]:
                raise ValueError(f"a row of {record.table} has unknown columns")
            if not all(map(_fits, record.row.values())):
                raise ValueError(f"a row of {record.table} has a value that is neither a string nor a number")
            bulk.add(record.table, record.row)
        bulk.flush()
        log.last_sequence += events
    return {"events": events, "turns": len(turns - {""})}


def _metadata(session_id: str, description: dict[str, Any], counts: dict[str, int]) -> Meta:
    metadata: Any = first_meta(
        session_id, description["agent_name"], None, None, description["workspace_path"], None
    )
    metadata |= {"state": "stopped", "stop_reason": "completed", **description}
    metadata |= {"last_sequence": counts["events"], "turns": counts["turns"]}
    return metadata  # type: ignore[no-any-return]


def _fits(value: object) -> bool:
    return value in _INTEGERS if isinstance(value, int) else isinstance(value, str | float | None)
