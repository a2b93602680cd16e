"""The refused permission that ended a turn, if one did. Pure.

Promises: a turn that somebody cancelled never counts as refused, nor does one in which the agent answered,
or completed another tool, after the last refusal. A request that was withdrawn is no refusal.
"""

from __future__ import annotations

from typing import Any

from agh.core.events import MARKER_CREATED, Row
from agh.core.named_tuple import NamedTuple

LONGEST = 200  # characters of a command or a path in a message
WITHDRAWN = ("agent", "cancel", "turn_end", "the session's end")  # nobody refused: the question went away
REASONS = {
    "mode": "mode deny-all",
    "no-ask": "--no-ask",
    "rule": "one of your rules",
    "session": "denied for the whole session",
    "terminal": "by the user",
    "timeout": "no answer in time",
    "user": "by the user",
    "workspace": "outside the workspace",
}


class Refusal(NamedTuple):
    """A permission that the agent asked for and did not get."""

    action: str
    resource: str | None
    decided_by: str
    title: str | None = None
    tool_call_id: str | None = None
    offered: bool = True  # whether the agent offered an option that fits the answer

    @property
    def name(self) -> str:
        """Return the action and what it was about, on one line."""
        about = " ".join((self.resource or self.title or "").split())
        if len(about) > LONGEST:
            about = about[: LONGEST - 1] + "…"
        return f"{self.action} '{about}'" if about else self.action

    @property
    def reason(self) -> str:
        """Say who or what refused it."""
        if not self.offered:
            return "the agent offered no option that fits the answer"
        return REASONS.get(self.decided_by) or f"by {self.decided_by}"


class RefusalTracker:
    """Fed the rows of a turn in order, then asked whether a refusal ended it."""

    def __init__(self, turn_id: str) -> None:
        self._turn_id = turn_id
        self._last: Refusal | None = None
        self._continued = self._cancelled = False
        self._titles: dict[str, str] = {}

    def feed(self, row: Row) -> None:
        """Take the next row; those of other turns are ignored."""
        if row.type == MARKER_CREATED:
            marker = row.parsed()
            self._cancelled |= marker.get("kind") == "prompt_cancel" and marker.get("turn") == self._turn_id
        elif row.turn_id != self._turn_id:
            return
        elif row.type == "permission":
            self._feed_permission(row.parsed())
        elif self._last is not None and not self._continued:
            self._continued = _is_progress(row, self._last)

    def refusal(self, stop_reason: str) -> Refusal | None:
        """Return the refusal that ended the turn, given how it ended."""
        if self._cancelled or stop_reason == "interrupted":
            return None
        ended_by_it = stop_reason in ("cancelled", "refusal") or not self._continued
        return self._last if ended_by_it else None

    def _feed_permission(self, content: dict[str, Any]) -> None:
        request_id, title = str(content.get("request_id")), content.get("title")
        if title:
            self._titles[request_id] = str(title)
        decision, decided_by = content.get("decision"), str(content.get("decided_by") or "")
        if decision == "denied" or (decision == "cancelled" and decided_by not in WITHDRAWN):
            self._last = Refusal(
                str(content.get("action") or "other"),
                content.get("resource"),
                decided_by,
                self._titles.get(request_id),
                content.get("tool_call_id"),
                offered=decision == "denied",
            )
            self._continued = False


def _is_progress(row: Row, refusal: Refusal) -> bool:
    """Tell whether the agent got something done: words, or a tool other than the refused one."""
    if row.type == "agent_message":
        return bool(str(row.parsed().get("text") or "").strip())
    if row.type != "tool_result":
        return False
    content = row.parsed()
    call = content.get("tool_call_id")
    return not content.get("tool_error") and (call is None or call != refusal.tool_call_id)
