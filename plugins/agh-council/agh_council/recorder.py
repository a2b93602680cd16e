"""The recorder of a council: it writes the council's events to the log and keeps the state up to date.

The state only ever changes by reading back what is on disk, so it cannot differ from the fold of the log.
"""

from __future__ import annotations

import time
from typing import Any

from agh.core.events import timestamp
from agh.keeper.session import Live
from agh.store.reader import EVERYTHING, Reader
from agh_council import limits, prompts
from agh_council.fold import apply
from agh_council.members import scratch_pads
from agh_council.state import CouncilEvent, Delegation, Round, State


class Recorder:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.state = State(session_id=live.session_id)
        self.turn_id = ""  # of the open round
        self.catch_up()

    def record(self, *events: CouncilEvent) -> None:
        """Write events of the council in one batch and apply them to the state."""
        with self.live.log.batch():
            for action, title, payload in events:
                self.live.log.record(
                    "system", turn_id=self.turn_id, action=action, title=title, council=payload
                )
        self.catch_up()

    def record_answer(self, delegation: Delegation, text: str, cost: float) -> None:
        with self.live.log.batch():
            self.live.log.record(
                "agent_message",
                turn_id=self.turn_id,
                text=text,
                agent_id=delegation.target,
                message_id=f"{delegation.id}:{delegation.tries}",
                council={"delegation": delegation.id, "cost": cost},
            )
        self.catch_up()

    def record_scratch_pads(self) -> None:
        """Record the scratch pads whose text has changed."""
        events = [
            CouncilEvent("expertise", f"{id} wrote in its scratch pad", {"agent_id": id, "text": text})
            for id, text in scratch_pads.read_changed(self.state).items()
        ]
        if events:
            self.record(*events)

    def catch_up(self) -> None:
        """Apply the rows of the log that the state does not have yet."""
        with Reader(self.live.session) as reader:
            for row in reader.rows(EVERYTHING, self.state.sequence):
                apply(self.state, row)

    def start_turn(self, round_: Round, text: str) -> None:
        """Start a turn of the council's session for a round; a continued round gets another turn."""
        count = self.state.turn_counts.get(round_.number, 0) + 1
        self.turn_id = f"round-{round_.number}" + (f".{count}" if count > 1 else "")
        message = "\n\n".join([text, *prompts.notes_for_everyone(round_)])
        with self.live.log.batch():
            self.live.log.record(
                "user_message", turn_id=self.turn_id, text=message, council={"round": round_.number}
            )
        self.catch_up()
        self._update_activity()

    def end_turn(self, reason: str) -> None:
        if self.turn_id:
            with self.live.log.batch():
                self.live.log.record("done", turn_id=self.turn_id, stop_reason=reason)
            self.turn_id = ""
            self.live.meta["turns"] = self.live.meta.get("turns", 0) + 1
            self.catch_up()
            self._update_activity()

    def check_limits(self, running_cost: float = 0.0) -> tuple[str, str] | None:
        """Record a warning, once, for each limit that comes close.

        Returns the stop reason and detail of a maximum that is reached.
        """
        self.state.elapsed = time.monotonic() - self.live.activity.started
        for constraint, used, bounds in limits.find_approaching(self.state, running_cost):
            title = f"{constraint} is almost used up: {used:g} of {bounds.max:g}"
            payload = {"constraint": constraint, "used": used, "max": bounds.max, "level": "approaching"}
            self.record(CouncilEvent("constraint", title, payload))
        return limits.find_reached(self.state, running_cost)

    def _update_activity(self) -> None:
        activity = {"turn_id": self.turn_id or None, "last_activity_at": timestamp()}
        self.live.update(sync=False, activity=activity)


def status_event(delegation: Delegation, status: str, **details: Any) -> CouncilEvent:
    """Return the event that changes a delegation's status; details that are None are left out."""
    payload = {"id": delegation.id, "status": status}
    payload |= {key: value for key, value in details.items() if value is not None}
    reason = f": {details['detail']}" if details.get("detail") else ""
    return CouncilEvent("delegation", f"{title_of(delegation)} is {status}{reason}", payload)


def title_of(delegation: Delegation) -> str:
    return f"round {delegation.round}: {delegation.kind} {delegation.target}"
