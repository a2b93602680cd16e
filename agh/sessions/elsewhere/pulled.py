"""Mirrors: local copies of sessions that another machine's agh keeps.

A mirror's log has the rows of the other log, with their sequences, and nothing else. It has a file that says
so, and a Writer refuses it: only what was pulled is written, by the holder of the mirror's lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from agh.home import Session, open_private
from agh.store.lock import Lock
from agh.store.rows import INSERT_EVENT, upsert
from agh.store.writer import MIRROR_FILE, Writer

KIND = "mirror"  # of a session, in its metadata
KEYS = {
    "token_usage": "turn_id",
    "hook_runs": "id",
    "inputs": "id",
    "permissions": "request_id",
    "questions": "request_id",
}
Rows = Sequence[tuple[int, str, str, str, str, str]]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def mark_mirror(session: Session) -> None:
    """Mark a session that is being created as a mirror, for good."""
    os.close(open_private(os.path.join(session, MIRROR_FILE), os.O_WRONLY))


def open_mirror(lock: Lock, agent_name: str) -> Writer:
    """Return the writer of a mirror whose lock is held."""
    return Writer(lock, agent_name, is_pulled=True)


def store_pulled(writer: Writer, rows: Rows, tables: Tables) -> None:
    """Store rows as they are in the other log; skip those that are here. Refuse a gap.

    Raises ValueError if what was pulled are no rows of a log.
    """
    new = [tuple(row) for row in rows if row[0] > writer.last_sequence]
    for number, row in enumerate(new, start=writer.last_sequence + 1):
        if row[0] != number or not all(isinstance(text, str) for text in row[1:]) or len(row) != 6:
            raise ValueError(f"row {number} is missing or damaged")
    with writer.transaction() as connection:
        connection.executemany(INSERT_EVENT, new)
        for table, key in KEYS.items():
            columns = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
            for fields in tables.get(table) or ():
                if not fields.keys() <= columns or key not in fields:
                    raise ValueError(f"{table} has different columns there")
                upsert(connection, table, key, fields)
        writer.last_sequence += len(new)
