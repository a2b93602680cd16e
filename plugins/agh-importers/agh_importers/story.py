"""A conversation while it is being retold: events in order, grouped into turns.

The same lines give the same events, and more lines only add some at the end: that is how a file that grew
is told from one that was written anew. So the end of the last turn is never guessed here.
"""

from __future__ import annotations

import os
from typing import Any

from agh.core.events import Row, draft
from agh.core.exchange import Imported, TableRow

LONGEST_TITLE = 80
_NEVER = "1970-01-01T00:00:00.000Z"


class Story:
    def __init__(self, agent_name: str, token: str) -> None:
        self.agent_name, self.token = agent_name, token
        self.rows: list[Row] = []
        self.usage: dict[str, dict[str, Any]] = {}
        self.session: dict[str, Any] = {"agent_name": agent_name, "acp_session_id": token}
        self.source: dict[str, Any] = {}  # not of the session: the agent may not offer that model to agh
        self.at = ""
        self._turn, self._turns, self._open = "", 0, False

    def clock(self, at: str | None) -> None:
        """The time of what is told next; lines without one happen at that of the line before."""
        self.at = at or self.at

    def prompt(self, text: str) -> None:
        """A new turn; the one before is over, whether or not its end was told."""
        if self._open:
            self.end("end_turn")
        self._turns += 1
        self._turn, self._open = f"turn-{self._turns:06d}", True
        self.session.setdefault("title", " ".join(text.split())[:LONGEST_TITLE] or None)
        self.event("user_message", text=text)

    def event(self, type: str, **fields: Any) -> None:
        """An event of the turn that is going on; what is not chat stays outside of turns."""
        turn = self._turn if type != "system" else ""
        made = draft(type, turn_id=turn, agent_session=self.token, at=self.at or _NEVER, **fields)
        row = Row(len(self.rows) + 1, turn, type, self.agent_name, made.content, made.timestamp)
        self.rows.append(row)

    def call(self, call: str, name: str, title: str, given: Any) -> None:
        self.event("tool_call", tool_call_id=call, tool_name=name, title=title, tool_input=given)

    def result(self, call: str, name: str | None, result: dict[str, Any], failed: bool) -> None:
        self.event("tool_result", tool_call_id=call, tool_name=name, tool_result=result, tool_error=failed)

    def note(self, title: str, text: str | None = None, raw: Any = None) -> None:
        self.event("system", title=title, text=text, raw=raw)

    def end(self, reason: str) -> None:
        if self._open:
            self.event("done", stop_reason=reason)
            self._open = False

    def fail(self, text: str) -> None:
        self.event("error", error=text)
        self._open = False

    def spend(self, **tokens: int | None) -> None:
        """What the turn that is going on has used so far, over all."""
        if self._turn:
            given = {key: value for key, value in tokens.items() if value is not None}
            self.usage[self._turn] = {"turn_id": self._turn, **given, "timestamp": self.at or _NEVER}

    @property
    def turn(self) -> str:
        return self._turn

    def told(self) -> Imported:
        session = {key: value for key, value in self.session.items() if value is not None}
        times = [row.timestamp for row in self.rows] or [_NEVER]
        session |= {"created_at": times[0], "updated_at": times[-1]}
        session.setdefault("workspace_path", os.path.expanduser("~"))
        spoken = any(row.type in ("user_message", "agent_message") for row in self.rows)
        usage = [TableRow("token_usage", row) for row in self.usage.values()]
        return Imported(session, [*self.rows, *usage] if spoken else [], self.source)


def words(content: Any, *kinds: str) -> str:
    """The text of a message: a text, or a list of parts of which those of these kinds are told."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    known = [part for part in parts if isinstance(part, dict)]
    texts = [part.get("text") for part in known if part.get("type") in kinds]
    pictures = sum("image" in str(part.get("type")) for part in known)
    return "\n".join([*(text for text in texts if isinstance(text, str)), *["[image]"] * pictures])


def number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
