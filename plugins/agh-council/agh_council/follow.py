"""Following a running council from a command: its events as lines, Ctrl-C, and the error to exit with."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from agh.console import terminal
from agh.console.output import remark
from agh.errors import AghError
from agh.home import Session
from agh.keeper import client
from agh.store.follow import follow
from agh.store.reader import EVERYTHING
from agh_council.errors import CouncilPaused, CouncilStopped, GateWaits

_PRINTED_ACTIONS = (
    "opened",
    "limits",
    "member",
    "round",
    "gate",
    "steer",
    "constraint",
    "permission",
    "question",
    "memo",
)


def follow_council(session: Session, after: int) -> Iterator[str]:
    """Yield a line for each notable event after a sequence, until the council's keeper has ended."""
    with _CtrlC(session):
        for batch in follow([(session, after)], EVERYTHING):
            for row in batch.rows:
                content = row.parsed()
                if row.type == "agent_message":
                    yield terminal.one_line(f"{content.get('agent_id')}: {content.get('text')}", 200)
                elif row.type == "system" and _is_printed(content):
                    yield terminal.one_line(f"{content['action']}: {content.get('title')}", 200)


def _is_printed(content: dict[str, Any]) -> bool:
    action, payload = content.get("action"), content.get("council") or {}
    is_lost = action == "delegation" and payload.get("status") in ("failed", "unknown")
    return action in _PRINTED_ACTIONS or is_lost


def error_for(view: dict[str, Any]) -> AghError | None:
    """Return the error that says why the council stopped; None if it has a memo."""
    if view["phase"] == "completed":
        return None
    if view["gate"]:
        return GateWaits(view["session_id"], view["gate"]["prompt"])
    reason = view["stop_detail"] or view["stop_reason"]
    if view["phase"] == "paused":
        return CouncilPaused(view["session_id"], reason)
    return CouncilStopped(view["session_id"], reason)


class _CtrlC:
    """What Ctrl-C does while a council is followed: the first pauses it, the second leaves at once."""

    def __init__(self, session: Session) -> None:
        self.session, self.presses = session, 0

    def __enter__(self) -> None:
        self._previous_handler = signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._previous_handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.presses += 1
        if self.presses > 1:
            remark("the council pauses in the background")
            raise KeyboardInterrupt
        remark("pausing the council; press Ctrl-C again to leave without waiting")
        try:
            client.call(self.session, "stop", reason="paused", limit=0.05)
        except AghError:
            pass  # the request is on its way, or the keeper has ended; the loop above sees either
