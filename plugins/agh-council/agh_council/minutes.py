"""The minutes of a council: its log, written in this process and folded into the state.

The state is only ever changed by reading back what is on disk, so that it can be nothing but the fold.
"""

from __future__ import annotations

import time
from typing import Any

from agh.core.events import timestamp
from agh.keeper.session import Live
from agh.store.reader import EVERYTHING, Reader
from agh_council import limits, pads, words
from agh_council.state import Delegation, Note, Round, State, apply


class Minutes:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.state = State(session_id=live.session_id)
        self.turn_id = ""  # of the round that is open
        self.catch_up()

    def note(self, *notes: Note) -> None:
        """Write events of the council down, together, and take them in."""
        with self.live.log.batch():
            for action, title, given in notes:
                self.live.log.record(
                    "system", turn_id=self.turn_id, action=action, title=title, council=given
                )
        self.catch_up()

    def note_answer(self, one: Delegation, text: str, cost: float) -> None:
        with self.live.log.batch():
            self.live.log.record(
                "agent_message",
                turn_id=self.turn_id,
                text=text,
                agent_id=one.target,
                message_id=f"{one.id}:{one.tries}",
                council={"delegation": one.id, "cost": cost},
            )
        self.catch_up()

    def note_pads(self) -> None:
        """Keep what members have written into their scratch pads."""
        changed = pads.changed(self.state).items()
        notes = [(id, {"agent_id": id, "text": text}) for id, text in changed]
        if notes:
            self.note(*(("expertise", f"{id} wrote in its scratch pad", given) for id, given in notes))

    def catch_up(self) -> None:
        """Take in what the log has and the state has not."""
        with Reader(self.live.directory) as reader:
            for row in reader.rows(EVERYTHING, self.state.sequence):
                apply(self.state, row)

    def begin_turn(self, now: Round, text: str) -> None:
        """A round is a turn of the council's session; one that is gone on with is a new turn."""
        count = self.state.turns.get(now.number, 0) + 1
        self.turn_id = f"round-{now.number}" + (f".{count}" if count > 1 else "")
        told = "\n\n".join([text, *words.from_operator(now)])
        with self.live.log.batch():
            self.live.log.record(
                "user_message", turn_id=self.turn_id, text=told, council={"round": now.number}
            )
        self.catch_up()
        self._show_activity()

    def end_turn(self, reason: str) -> None:
        if self.turn_id:
            with self.live.log.batch():
                self.live.log.record("done", turn_id=self.turn_id, stop_reason=reason)
            self.turn_id = ""
            self.live.meta["turns"] = self.live.meta.get("turns", 0) + 1
            self.catch_up()
            self._show_activity()

    def look_at_limits(self, more_cost: float = 0.0) -> tuple[str, str] | None:
        """Warn once of a maximum that comes close; the stop reason and detail of one that is reached."""
        self.state.elapsed = time.monotonic() - self.live.activity.started
        for constraint, used, bounds in limits.approaching(self.state, more_cost):
            given = {"constraint": constraint, "used": used, "max": bounds.max, "level": "approaching"}
            self.note(("constraint", f"{constraint} comes close: {used:g} of {bounds.max:g}", given))
        return limits.reached(self.state, more_cost)

    def _show_activity(self) -> None:
        activity = {"turn_id": self.turn_id or None, "last_activity_at": timestamp()}
        self.live.update(sync=False, activity=activity)


def changed(one: Delegation, status: str, **more: Any) -> Note:
    """That a delegation is something else now; what is None is left out."""
    given = {"id": one.id, "status": status}
    given |= {key: value for key, value in more.items() if value is not None}
    why = f": {more['detail']}" if more.get("detail") else ""
    return "delegation", f"{about(one)} is {status}{why}", given


def about(one: Delegation) -> str:
    return f"round {one.round}: {one.kind} {one.target}"
