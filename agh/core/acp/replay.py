"""The events of a conversation that an agent replays, as `session/load` makes it do. Pure.

Promises: what a replay says becomes the same kinds of events as in a live session, in the same order; what is
not history (modes, options, commands) is left out. A replay has neither turns nor times: a turn begins with
each prompt, and every event has the one time that the caller names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agh.core.acp.tool_result import carry
from agh.core.acp.updates import event_of, known_usage
from agh.core.events import MARKER_CREATED, TOOL_NAMES, Row, draft_of, unknown_result
from agh.core.exchange import LongRow, Record, TableRow

Fields = dict[str, Any]

_HISTORY = ("agent_message", "thought", "tool_call", "tool_result", "plan")
_FINISHED = ("completed", "failed")


class Replay:
    """Takes the updates in order; `add` and `finish` yield the records that they complete."""

    def __init__(self, agent_name: str, acp_session_id: str, at: str) -> None:
        self.first_prompt = ""
        self.title: str | None = None  # as the agent reports it
        self.messages = 0  # prompts, answers and tool calls so far
        self._agent_name, self._acp_session_id, self._at = agent_name, acp_session_id, at
        self._sequence = self._turns = 0
        self._turn_id, self._last_type = "", ""
        self._prompt: list[Fields] = []  # the chunks of a prompt that is not complete yet
        self._carried: dict[str, Fields] = {}  # what was said about each tool call of the turn
        self._open: dict[str, Fields] = {}  # its tool calls without a result, by what name
        self._compactions: set[str] = set()
        self._usage: Fields = {}

    def add(self, update: Fields, raw: bytes | memoryview) -> Iterator[Record]:
        """Take the next update; `raw` is its JSON text as the agent sent it."""
        kind = update.get("sessionUpdate")
        if kind == "user_message_chunk":
            if self._prompt and self._prompt[-1].get("messageId") != update.get("messageId"):
                yield from self._start_turn()
            self._prompt.append(update)
        elif kind in ("tool_call", "tool_call_update"):
            yield from self._start_turn()
            yield from self._add_tool(update, raw)
        elif kind == "session_info_update":
            title = update.get("title")
            self.title = title[:200] if isinstance(title, str) and title else self.title
        else:
            type, fields = event_of(update)
            if type in _HISTORY:
                yield from self._start_turn()
                yield self._event(type, fields, raw)
            elif type == MARKER_CREATED and str(update.get("compactionId")) not in self._compactions:
                if update.get("compactionId") is not None:
                    self._compactions.add(str(update["compactionId"]))
                yield from self._start_turn()
                place = {"occurred_at": self._at, "turn": self._turn_id or None}
                yield self._event(type, {**fields, **place}, raw, turn_id="")
            elif type == "usage":
                self._usage = known_usage(fields["usage"]) | {"timestamp": self._at}

    def finish(self) -> Iterator[Record]:
        """Yield what is left. A last turn without an answer stays open: nobody knows how it ended."""
        if self._prompt:
            yield from self._start_turn()
        if self._usage and self._turn_id:
            yield self._event("usage", {"usage": self._usage})
        if self._last_type in ("agent_message", "thought", "plan"):
            yield from self._end_turn()
        if self._usage and self._turn_id:
            yield TableRow("token_usage", {"turn_id": self._turn_id, **self._usage})

    def warn(self, text: str) -> Record:
        """Return the event for something in the replay that cannot be read."""
        return self._event("runtime_warning", {"text": text})

    def _start_turn(self) -> Iterator[Record]:
        """Start the turn of the prompt that is now complete; one without a prompt if the replay has none."""
        if self._prompt:
            yield from self._end_turn()
        elif self._turn_id:
            return
        chunks, self._prompt = self._prompt, []
        self._turns += 1
        self._turn_id = f"turn-{self._turns:06d}"
        if chunks:
            contents = [content for chunk in chunks if isinstance(content := chunk.get("content"), dict)]
            text = "".join(str(content.get("text", "")) for content in contents if _is_text(content))
            others = [content for content in contents if not _is_text(content)]
            self.first_prompt = self.first_prompt or text
            fields = {"text": text, "attachments": others or None, "message_id": chunks[0].get("messageId")}
            yield self._event("user_message", fields)

    def _end_turn(self) -> Iterator[Record]:
        if self._turn_id:
            for call_id, names in self._open.items():
                yield self._event("tool_result", unknown_result(call_id, names))
            yield self._event("done", {"stop_reason": "end_turn", "closed_by": "import"})
        self._carried, self._open = {}, {}

    def _add_tool(self, update: Fields, raw: bytes | memoryview) -> Iterator[Record]:
        """Yield the events of a tool call; one that comes with its result at once has both."""
        call_id = str(update.get("toolCallId"))
        earlier = self._carried.get(call_id)
        if earlier is None and update.get("status") in _FINISHED:
            _, fields = event_of({**update, "status": "in_progress"})
            yield self._event("tool_call", fields)
        type, fields = event_of(update, earlier or {})
        self._carried[call_id] = carry(earlier or {}, update)
        yield self._event(type, fields, raw)
        if type == "tool_result":
            self._open.pop(call_id, None)
        else:
            news = {name: fields[name] for name in TOOL_NAMES if fields.get(name) is not None}
            self._open[call_id] = {**self._open.get(call_id, {}), **news}

    def _event(
        self, type: str, fields: Fields, raw: bytes | memoryview | None = None, turn_id: str | None = None
    ) -> Record:
        self._sequence += 1
        self.messages += type in ("user_message", *_HISTORY)
        self._last_type = type if type not in ("usage", "runtime_warning") else self._last_type
        turn_id = self._turn_id if turn_id is None else turn_id
        event = draft_of(type, turn_id, self._acp_session_id, self._at, fields, raw)
        if event.pieces:
            content = b"".join(event.pieces)
            return LongRow(self._sequence, turn_id, type, self._agent_name, content, self._at)
        return Row(self._sequence, turn_id, type, self._agent_name, event.content, self._at)


def _is_text(content: Fields) -> bool:
    return content.get("type") == "text" and isinstance(content.get("text"), str)
