"""Where an imported session is built. Promises: it appears when it is complete, or not at all.

It is built in a directory that no command looks at, in one transaction, and then renamed. What a kill left
of such directories is removed by the next import.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from agh.core.events import Row
from agh.core.exchange import TABLES, TableRow, checked
from agh.errors import AghError, Bug, SessionExists
from agh.home import ensure_home, make_private_dir
from agh.keeper.create import check_name, first_meta
from agh.store import lock, meta, sessions, writer
from agh.store.copy import insert
from agh.store.lock import Lock
from agh.store.meta import Meta, sync_directory
from agh.store.writer import Writer

WORKBENCH = ".importing-"
_INTEGERS = range(-(1 << 63), 1 << 63)


def build(target: str, session: dict[str, Any], records: Iterable[Row | TableRow]) -> int:
    """A new session in the directory `target`; how many events it has. SessionExists if there is one."""
    with _workbench(os.path.basename(target)) as held:
        writer.create(held)
        with Writer(held, session["agent_name"]) as log:
            counts = fill(log, records)
        made = _metadata(os.path.basename(target), session, counts)
        with sessions.naming():
            if made["name"] is not None:
                try:
                    check_name(made["name"])
                except AghError:
                    made["name"] = None
            meta.write(held.directory, made)
            held.release()  # nobody sweeps now, and nobody shall find the new session in use
            try:
                os.rename(held.directory, target)
            except OSError:
                if os.path.isdir(target):
                    raise SessionExists(os.path.basename(target)) from None
                raise
        sync_directory(os.path.dirname(target))
    return counts["events"]


def fill(log: Writer, records: Iterable[Row | TableRow]) -> dict[str, int]:
    """Everything in one transaction; how many events and turns there were."""
    names = {
        table: {name for (name,) in log.connection.execute("SELECT name FROM pragma_table_info(?)", [table])}
        for table in TABLES
    }
    events, turns = 0, set[str]()
    with log.transaction() as db:
        for record in records:
            if isinstance(record, Row):
                insert(db, "events", checked(record)._asdict())
                events += 1
                turns.add(record.turn_id)
                continue
            if not record.row or not set(record.row) <= names[record.table]:
                raise ValueError(f"a row of {record.table} has columns that are not there")
            if not all(map(_fits, record.row.values())):
                raise ValueError(f"a row of {record.table} holds something that is no text and no number")
            insert(db, record.table, record.row, "INSERT OR REPLACE")
        log.last_sequence += events
    return {"events": events, "turns": len(turns - {""})}


def _metadata(session_id: str, session: dict[str, Any], counts: dict[str, int]) -> Meta:
    made: Any = first_meta(session_id, session["agent_name"], None, None, session["workspace_path"], None)
    made |= {"state": "stopped", "stop_reason": "shutdown", **session}
    made |= {"last_sequence": counts["events"], "turns": counts["turns"]}
    return made  # type: ignore[no-any-return]


def _fits(value: object) -> bool:
    return value in _INTEGERS if isinstance(value, int) else isinstance(value, str | float | None)


@contextmanager
def _workbench(session_id: str) -> Iterator[Lock]:
    """The held lock of an empty directory that no command takes for a session."""
    base = os.path.join(ensure_home(), "sessions")
    make_private_dir(base)
    directory = os.path.join(base, f"{WORKBENCH}{session_id}-{os.getpid()}")
    with sessions.naming():  # a sweep must not find it between its making and its locking
        _sweep(base)
        os.mkdir(directory, 0o700)
        held = lock.take(directory)
    if held is None:
        raise Bug(f"the lock of {directory}, just made, is taken")
    try:
        with held:
            yield held
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _sweep(base: str) -> None:
    for name in os.listdir(base):
        if name.startswith(WORKBENCH):
            leftover = lock.take(os.path.join(base, name))
            if leftover is not None:
                with leftover:
                    shutil.rmtree(leftover.directory, ignore_errors=True)
