"""The prompt queue: one row per input, written before it is acknowledged. Each function joins the
writer's open transaction.

Statuses: queued → dispatching → sent or failed; cancelled and interrupted are final too. A prompt that was
dispatching when its keeper died becomes interrupted and is never sent again automatically. A prompt that met
a usage limit may be queued again.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from agh.core.events import marker, timestamp
from agh.core.named_tuple import NamedTuple
from agh.errors import InputUnknown
from agh.store.rows import insert
from agh.store.writer import Writer


class Input(NamedTuple):
    """A prompt in the queue, or one that has left it."""

    id: int
    generation: int
    mode: str
    status: str
    prompt: list[dict[str, Any]]
    turn_id: str
    retries: int  # how often it may be sent again
    park: int = 0  # whether it waits for the reset of a usage limit instead of failing


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
    park: bool = False,
) -> Input:
    """Append a prompt to the queue and return it with its id."""
    now = timestamp()
    row = {
        "generation": generation,
        "mode": mode,
        "status": "queued",
        "prompt": orjson.dumps(prompt).decode(),
        "idempotency_key": key,
        "turn_id": turn_id,
        "retries": retries,
        "park": int(park),
        "created_at": now,
        "updated_at": now,
    }
    return Input(insert(db, "inputs", row), generation, mode, "queued", prompt, turn_id, retries, int(park))


def by_key(db: sqlite3.Connection, key: str) -> Input | None:
    return _parse(db.execute(f"SELECT {_COLUMNS} FROM inputs WHERE idempotency_key = ?", [key]).fetchone())


def by_id(db: sqlite3.Connection, input_id: int) -> Input | None:
    return _parse(db.execute(f"SELECT {_COLUMNS} FROM inputs WHERE id = ?", [input_id]).fetchone())


def generation(db: sqlite3.Connection) -> int:
    """Return the current generation. Each interrupt starts a new one; prompts of older ones are stale."""
    return int(db.execute("SELECT coalesce(max(generation), 0) FROM inputs").fetchone()[0])


def queued(db: sqlite3.Connection) -> list[Input]:
    """List the queued prompts in the order in which they will be sent: steering prompts come first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM inputs WHERE status = 'queued' ORDER BY mode != 'steer', id"
    ).fetchall()
    return [prompt for row in rows if (prompt := _parse(row)) is not None]


def next_queued(db: sqlite3.Connection) -> Input | None:
    return next(iter(queued(db)), None)


def count_queued(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM inputs WHERE status = 'queued'").fetchone()[0])


def is_steering(db: sqlite3.Connection) -> bool:
    """Tell whether a steering prompt is queued."""
    steering = "SELECT 1 FROM inputs WHERE status = 'queued' AND mode = 'steer' LIMIT 1"
    return db.execute(steering).fetchone() is not None


def set_status(db: sqlite3.Connection, input_id: int, status: str, detail: str | None = None) -> None:
    db.execute(
        "UPDATE inputs SET status = ?, detail = ?, updated_at = ? WHERE id = ?",
        [status, detail, timestamp(), input_id],
    )


def queue_again(db: sqlite3.Connection, input_id: int, turn_id: str, detail: str) -> None:
    """Put a prompt back into the queue; it gets another turn, since its own has ended."""
    db.execute(
        "UPDATE inputs SET status = 'queued', turn_id = ?, detail = ?, updated_at = ? WHERE id = ?",
        [turn_id, detail, timestamp(), input_id],
    )


def _parse(row: Any) -> Input | None:
    return None if row is None else Input._make(row)._replace(prompt=orjson.loads(row[4]))


def cancel(writer: Writer, input_id: int | None) -> list[int]:
    """Cancel one queued input, or all if `input_id` is None, and return the ids. Needs a transaction."""
    db = writer.connection
    matching = [input for input in queued(db) if input_id in (None, input.id)]
    if input_id is not None and not matching:
        raise InputUnknown(input_id, writer.session_id)
    for input in matching:
        set_status(db, input.id, "cancelled", "cancelled by the user")
        writer.append([marker("prompt_dropped", "the queued prompt was cancelled", turn=input.turn_id)])
    return [input.id for input in matching]
