"""The prompts that wait in a session, or were interrupted."""

from __future__ import annotations

from typing import Any

import orjson

from agh.errors import InputUnknown, KeeperGone, SessionBusy
from agh.home import Session
from agh.keeper import client
from agh.store import inputs, meta
from agh.store import lock as locks
from agh.store.reader import Reader
from agh.store.writer import Writer

_SHOWN = ("id", "status", "mode", "generation", "turn_id", "detail", "created_at", "updated_at")


def read_inputs(session: Session, everything: bool) -> list[dict[str, Any]]:
    """List the prompts that wait or were interrupted, or all there ever were; oldest first."""
    where = "" if everything else "WHERE status IN ('queued', 'dispatching', 'interrupted')"
    with Reader(session) as reader:
        rows = reader.fetch(f"SELECT {', '.join(_SHOWN)}, prompt FROM inputs {where} ORDER BY id")
    return [dict(zip((*_SHOWN, "prompt"), (*row[:-1], orjson.loads(row[-1])), strict=True)) for row in rows]


def read_prompt(session: Session, number: int) -> list[dict[str, Any]]:
    """Return a prompt that was interrupted, failed or cancelled.

    What its keeper was sending when it died is interrupted, even if no command has written that yet.
    """
    statuses = ["interrupted", "failed", "cancelled", *([] if locks.is_held(session) else ["dispatching"])]
    with Reader(session) as reader:
        marks = ", ".join("?" * len(statuses))
        rows = reader.fetch(
            f"SELECT prompt FROM inputs WHERE id = ? AND status IN ({marks})", [number, *statuses]
        )
    if not rows:
        raise InputUnknown(number, session.id, hint=f"agh session queue list {session.id} --all")
    prompt: list[dict[str, Any]] = orjson.loads(rows[0][0])
    return prompt


def cancel_inputs(session: Session, number: int | None) -> list[int]:
    """Take one waiting prompt out of the queue, or all of them; return which."""
    try:
        cancelled: list[int] = client.call(session, "queue", input_id=number)["cancelled"]
        return cancelled
    except KeeperGone:
        lock = locks.take(session)
        if lock is None:
            raise SessionBusy(session.id) from None
        metadata = meta.read(session)
        with lock:
            with Writer(lock, metadata["agent_name"]) as writer:
                with writer.transaction():
                    cancelled = inputs.cancel(writer, number)
                is_empty = not inputs.count_queued(writer.connection)
            if metadata.get("resumes_at") and is_empty:
                meta.write(session, metadata | {"resumes_at": None, "limited": None})
            return cancelled
