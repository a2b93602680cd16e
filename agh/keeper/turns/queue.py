"""The verb `queue`: cancel a queued prompt, or all of them."""

from __future__ import annotations

from typing import Any

from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.keeper.turns.parking import give_up
from agh.store import inputs


def queue_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Cancel the queued prompt that is named, or all, and answer with what was cancelled."""
    with live.log.batch():
        cancelled = inputs.cancel(live.log.writer, request.get("input_id"))
    if not inputs.count_queued(live.log.db):
        give_up(live)
    answer({"cancelled": cancelled})
