"""The prompt queue: a row per input, written before it is acknowledged. Each function joins the
writer's open transaction.

Statuses: queued → dispatching → sent or failed; cancelled and interrupted are ends too. A prompt that
was dispatching when its keeper died becomes interrupted and is never sent again by itself.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

import orjson

from agh.core.events import marker, timestamp
from agh.errors import InputUnknown
from agh.store.writer import Writer


class Input(NamedTuple):
    id: int
    generation: int
    mode: str
    status: str
    prompt: list[dict[str, Any]]
    turn_id: str
    retries: int  # how often it may be sent again


_COLUMNS = ", ".join(Input._fields)


def add(
    db: sqlite3.Connection,
    *,
    generation: int,
    mode: str,
    prompt: list[dict[str, Any]],
    turn_id: str,
    key: str | None,
    retries: int = 0,
) -> Input:
    now = timestamp()
    made = db.execute(
        "INSERT INTO inputs (generation, mode, status, prompt, idempotency_key, turn_id, retries, "
        "created_at, updated_at) VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?)",
        [generation, mode, orjson.dumps(prompt).decode(), key, turn_id, retries, now, now],
    )
    return Input(int(made.lastrowid or 0), generation, mode, "queued", prompt, turn_id, retries)


def by_key(db: sqlite3.Connection, key: str) -> Input | None:
    return _one(db.execute(f"SELECT {_COLUMNS} FROM inputs WHERE idempotency_key = ?", [key]).fetchone())


def by_id(db: sqlite3.Connection, input_id: int) -> Input | None:
    return _one(db.execute(f"SELECT {_COLUMNS} FROM inputs WHERE id = ?", [input_id]).fetchone())


def generation(db: sqlite3.Connection) -> int:
    """Each interrupt begins a new generation; a prompt of an older one is stale."""
    return int(db.execute("SELECT coalesce(max(generation), 0) FROM inputs").fetchone()[0])


def queued(db: sqlite3.Connection) -> list[Input]:
    """What waits, in the order in which it will be sent: steering prompts come first."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM inputs WHERE status = 'queued' ORDER BY mode != 'steer', id"
    ).fetchall()
    return [one for row in found if (one := _one(row)) is not None]


def next_queued(db: sqlite3.Connection) -> Input | None:
    return next(iter(queued(db)), None)


def count_queued(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM inputs WHERE status = 'queued'").fetchone()[0])


def is_steering(db: sqlite3.Connection) -> bool:
    steering = "SELECT 1 FROM inputs WHERE status = 'queued' AND mode = 'steer' LIMIT 1"
    return db.execute(steering).fetchone() is not None


def set_status(db: sqlite3.Connection, input_id: int, status: str, detail: str | None = None) -> None:
    db.execute(
        "UPDATE inputs SET status = ?, detail = ?, updated_at = ? WHERE id = ?",
        [status, detail, timestamp(), input_id],
    )


def _one(row: Any) -> Input | None:
    if row is None:
        return None
    found = Input._make(row)
    return found._replace(prompt=orjson.loads(row[4]))


def cancel(writer: Writer, input_id: int | None) -> list[int]:
    """Inside a transaction: cancel the input named, or all that wait; return which."""
    db = writer.connection
    waiting = [input for input in queued(db) if input_id in (None, input.id)]
    if input_id is not None and not waiting:
        raise InputUnknown(input_id)
    for input in waiting:
        set_status(db, input.id, "cancelled", "cancelled by the user")
        writer.append([marker("prompt_dropped", "the queued prompt was cancelled", turn=input.turn_id)])
    return [input.id for input in waiting]
