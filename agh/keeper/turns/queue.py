"""The prompt queue from outside: cancel one that waits, or all of them."""

from __future__ import annotations

from typing import Any

from agh.core.events import marker
from agh.errors import InputUnknown
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.store import inputs
from agh.store.lock import Lock
from agh.store.writer import Writer


def cancel_inputs(writer: Writer, input_id: int | None) -> list[int]:
    """Inside a transaction: cancel the input named, or all that wait; which ones."""
    db = writer.connection
    waiting = [one for one in inputs.queued(db) if input_id in (None, one.id)]
    if input_id is not None and not waiting:
        raise InputUnknown(input_id)
    for one in waiting:
        inputs.set_status(db, one.id, "cancelled", "cancelled by the user")
        writer.append([marker("prompt_dropped", "the queued prompt was cancelled", turn=one.turn_id)])
    return [one.id for one in waiting]


def queue_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `queue`."""
    with live.batch():
        done = cancel_inputs(live.writer, request.get("input_id"))
    answer({"cancelled": done})


def cancel_offline(held: Lock, agent_name: str, input_id: int | None) -> list[int]:
    """The same for a session that is not live."""
    with Writer(held, agent_name) as writer, writer.transaction():
        return cancel_inputs(writer, input_id)
