"""A conversation being rebuilt from another program's file: events in order, grouped into turns.

Promises: the same lines give the same events, and more lines only add events at the end. This tells a
file that has grown from one that was rewritten, so the end of the last turn is never guessed here.
"""

from __future__ import annotations

import os
from typing import Any

from agh.core.events import Row, draft
from agh.core.exchange import Imported, TableRow

LONGEST_TITLE = 80
_UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"


class Conversation:
    """The events, the token usage and the metadata collected so far."""

    def __init__(self, agent_name: str, acp_session_id: str) -> None:
        self.agent_name, self.acp_session_id = agent_name, acp_session_id
        self.rows: list[Row] = []
        self.usage: dict[str, dict[str, Any]] = {}
        self.session: dict[str, Any] = {"agent_name": agent_name, "acp_session_id": acp_session_id}
        self.source: dict[str, Any] = {}  # not part of the session: agh may not offer the same model
        self.time = ""
        self._turn_id, self._turns, self._is_turn_open = "", 0, False

    @property
    def turn_id(self) -> str:
        """Return the id of the current turn; empty before the first."""
        return self._turn_id

    def set_time(self, time: str | None) -> None:
        """Set the time of the events that follow. None leaves it at the time of the line before."""
        self.time = time or self.time

    def start_turn(self, prompt: str) -> None:
        """Start a turn with a prompt, ending the turn before if nothing else has ended it."""
        self.end_turn("end_turn")
        self._turns += 1
        self._turn_id, self._is_turn_open = f"turn-{self._turns:06d}", True
        self.session.setdefault("title", " ".join(prompt.split())[:LONGEST_TITLE] or None)
        self.add_event("user_message", text=prompt)

    def end_turn(self, reason: str) -> None:
        """End the current turn, if it is still open."""
        if self._is_turn_open:
            self.add_event("done", stop_reason=reason)
            self._is_turn_open = False

    def fail_turn(self, error: str) -> None:
        """End the current turn with an error."""
        self.add_event("error", error=error)
        self._is_turn_open = False

    def add_event(self, type: str, **fields: Any) -> None:
        """Append an event to the current turn. `system` events belong to no turn."""
        turn_id = self._turn_id if type != "system" else ""
        event = draft(
            type, turn_id=turn_id, agent_session=self.acp_session_id, at=self.time or _UNKNOWN_TIME, **fields
        )
        row = Row(len(self.rows) + 1, turn_id, type, self.agent_name, event.content, event.timestamp)
        self.rows.append(row)

    def add_tool_call(self, call_id: str, tool_name: str, title: str, arguments: Any) -> None:
        self.add_event(
            "tool_call", tool_call_id=call_id, tool_name=tool_name, title=title, tool_input=arguments
        )

    def add_tool_result(
        self, call_id: str, tool_name: str | None, result: dict[str, Any], failed: bool
    ) -> None:
        self.add_event(
            "tool_result", tool_call_id=call_id, tool_name=tool_name, tool_result=result, tool_error=failed
        )

    def add_note(self, title: str, text: str | None = None, raw: Any = None) -> None:
        """Append a `system` event, for what is not part of the chat."""
        self.add_event("system", title=title, text=text, raw=raw)

    def set_usage(self, **tokens: int | None) -> None:
        """Set the total number of tokens that the current turn has used so far."""
        if self._turn_id:
            counts = {key: value for key, value in tokens.items() if value is not None}
            timestamp = self.time or _UNKNOWN_TIME
            self.usage[self._turn_id] = {"turn_id": self._turn_id, **counts, "timestamp": timestamp}

    def finish(self) -> Imported:
        """Return the session to import. It has no rows if nobody said anything."""
        session = {key: value for key, value in self.session.items() if value is not None}
        times = [row.timestamp for row in self.rows] or [_UNKNOWN_TIME]
        session |= {"created_at": times[0], "updated_at": times[-1]}
        session.setdefault("workspace_path", os.path.expanduser("~"))
        has_messages = any(row.type in ("user_message", "agent_message") for row in self.rows)
        usage = [TableRow("token_usage", row) for row in self.usage.values()]
        return Imported(session, [*self.rows, *usage] if has_messages else [], self.source)


def join_text(content: Any, *types: str) -> str:
    """Return the text of a message, which is a string or a list of parts, taking only parts of these types.

    An image becomes `[image]`, at the end.
    """
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if part.get("type") in types]
    images = sum("image" in str(part.get("type")) for part in parts)
    return "\n".join([*(text for text in texts if isinstance(text, str)), *["[image]"] * images])


def token_count(value: Any) -> int:
    """Return a number of tokens; 0 if it is not a sensible one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def string_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
