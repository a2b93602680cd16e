"""The log grouped by turn. Pure. Leaves out events that belong to no turn, such as lifecycle events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from agh.core.events import TURN_END_TYPES, Row, envelopes


class Turn:
    """One prompt and everything it led to; `ended_at` is None while the turn is open."""

    def __init__(self, first: Row) -> None:
        self.turn_id = first.turn_id
        self.started_at = first.timestamp
        self.ended_at: str | None = None
        self.stop_reason: str | None = None
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if row.type in TURN_END_TYPES and self.ended_at is None:
            self.ended_at = row.timestamp
            reason: Any = row.parsed().get("stop_reason")
            self.stop_reason = str(reason or ("error" if row.type == "error" else "end_turn"))


def turns(rows: Iterable[Row]) -> list[Turn]:
    """Group the rows by turn, in the order in which the turns started."""
    turns_by_id: dict[str, Turn] = {}
    for row in rows:
        if row.turn_id:
            if row.turn_id not in turns_by_id:
                turns_by_id[row.turn_id] = Turn(row)
            turns_by_id[row.turn_id].add(row)
    return list(turns_by_id.values())


def turn_json(turn: Turn, origin: tuple[str, str | None, str | None]) -> str:
    """Format a turn and its events as one JSON object; `origin` holds the last arguments of `envelopes`."""
    head = {
        "turn_id": turn.turn_id,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "stop_reason": turn.stop_reason,
    }
    return orjson.dumps(head).decode()[:-1] + ',"events":[' + ",".join(envelopes(turn.rows, *origin)) + "]}"
