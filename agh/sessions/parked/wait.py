"""Waiting for the turn of a parked prompt, whoever revives its session."""

from __future__ import annotations

import time
from typing import Any

from agh.errors import TimedOut
from agh.home import Session
from agh.store.reader import Reader
from agh.store.schema import LANDMARK
from agh.store.watch import Watch

_LONGEST_NAP = 1.0


def await_turn(session: Session, input_id: int, deadline: float | None) -> dict[str, Any]:
    """Wait until a queued prompt is sent or cancelled, and return its receipt.

    Raise TimedOut at the deadline.
    """
    started = time.monotonic()
    with Watch() as watch:
        watch.add(session)
        while True:
            receipt = _read_receipt(session, input_id)
            if receipt["status"] != "queued":
                return receipt
            left = _LONGEST_NAP if deadline is None else min(_LONGEST_NAP, deadline - time.monotonic())
            if left <= 0:
                hint = f"agh session wait {session.id}"
                raise TimedOut("the parked prompt", time.monotonic() - started, hint=hint)
            watch.wait(left)


def _read_receipt(session: Session, input_id: int) -> dict[str, Any]:
    with Reader(session) as reader:

        def read() -> dict[str, Any]:
            ((status, turn_id),) = reader.fetch("SELECT status, turn_id FROM inputs WHERE id = ?", [input_id])
            ((first,),) = reader.fetch(
                f"SELECT min(sequence) FROM events WHERE {LANDMARK} AND turn_id = ?", [turn_id]
            )
            after = reader.last_sequence() if first is None else first - 1
            return {"input_id": input_id, "turn_id": turn_id, "status": status, "after": after}

        return reader.snapshot(read)
