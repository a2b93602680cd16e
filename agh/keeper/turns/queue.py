"""The prompt queue from outside: cancel one that waits, or all of them."""

from __future__ import annotations

from typing import Any

from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.store import inputs


def queue_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `queue`."""
    with live.batch():
        done = inputs.cancel(live.writer, request.get("input_id"))
    answer({"cancelled": done})
