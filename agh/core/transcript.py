"""The conversation, assembled from events. Pure and deterministic: the same rows give the same messages.

Roles: user, assistant, tool_call, tool_result, marker. Chunks of one message join into `content`,
thoughts into `thinking`; the pieces of a tool call are stitched by `tool_call_id` within their turn.
A message has the id of the event in which its text begins. Empty chunks are dropped; white space is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agh.core.events import CHAT_TYPES, MARKER_CREATED, MARKER_REDACTED, Row

Message = dict[str, Any]

# These may occur in the middle of an answer, and so may markers; any other event ends it.
_NOT_ENDING = ("usage", "runtime_progress", "runtime_warning", "permission", "question", "system")
_TOOL_FIELDS = ("title", "tool_name", "tool_input", "tool_result", "tool_error", "outcome")
_MARKER_FIELDS = ("kind", "severity", "summary", "occurred_at", "diagnostic")
_CHUNKS = ("agent_message", "thought")
_ID = '"message_id":'  # in the content of a chunk
TRANSCRIPT_TYPES = (*CHAT_TYPES, MARKER_CREATED, MARKER_REDACTED)


def transcript(rows: Iterable[Row]) -> list[Message]:
    """Return the messages that these rows make up, in order."""
    assembler = Assembler()
    for row in sorted(rows, key=lambda row: (row.sequence, row.timestamp, row.id)):
        assembler.feed(row)
    return assembler.messages


def count_messages(rows: Iterable[Row]) -> int:
    """Return how many messages these rows, which are in order, make up; markers are not counted.

    A chunk that only continues an answer is not parsed: 10,000 take 8 ms, and `transcript` takes 44.
    """
    assembler = Assembler()
    for row in rows:
        if row.type not in _CHUNKS or not assembler.is_continued_by(row):
            assembler.feed(row)
    return sum(message["role"] != "marker" for message in assembler.messages)


def _id_text(content: str) -> str:
    """Return the JSON text of a chunk's message id, empty if it has none; if in doubt, the whole content."""
    start = content.find(_ID)
    if start < 0:
        return ""
    between, _, rest = content[start + len(_ID) :].partition('"')
    text, _, rest = rest.partition('"')
    return content if between or not text or "\\" in text or _ID in rest else text


class Assembler:
    """Takes rows in order of sequence; `messages` grows and its last entries may still change."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._answer: Message | None = None
        self._answer_key: tuple[str, Any] = ("", None)
        self._tools: dict[tuple[str, str, str], Message] = {}
        self._markers: dict[str, Message] = {}

    def feed(self, row: Row) -> list[Message]:
        """Take the next row; return the messages that it started or changed."""
        if row.type in _CHUNKS:
            return self._add_chunk(row)
        if row.type in _NOT_ENDING:
            return []
        if row.type in (MARKER_CREATED, MARKER_REDACTED):
            return [self._add_marker(row)]
        changed = self._end_answer()
        if row.type == "user_message":
            text = _text(row.parsed())
            self.messages.append({"id": row.id, "role": "user", "content": text, "timestamp": row.timestamp})
            changed.append(self.messages[-1])
        elif row.type in ("tool_call", "tool_result"):
            changed.append(self._add_tool(row))
        return changed

    def is_continued_by(self, chunk: Row) -> bool:
        """Tell, without parsing it, whether a chunk only continues the last answer; False if in doubt."""
        turn_id, message_id = self._answer_key
        if self._answer is None or chunk.turn_id != turn_id:
            return False
        return _id_text(chunk.content) in ("", message_id)

    def _add_chunk(self, row: Row) -> list[Message]:
        content = row.parsed()
        text = _text(content)
        if not text:
            return []
        changed = []
        key = (row.turn_id, content.get("message_id"))
        if self._answer is not None and (
            key[0] != self._answer_key[0]
            or (None not in (key[1], self._answer_key[1]) and key[1] != self._answer_key[1])
        ):
            changed = self._end_answer()
        if self._answer is None:
            self._answer = {"id": row.id, "role": "assistant", "content": ""}
            if content.get("agent_id"):  # the session has several agents
                self._answer["agent_id"] = content["agent_id"]
            self.messages.append(self._answer)
            self._answer_key = key
        elif self._answer_key[1] is None:
            self._answer_key = key
        answer = self._answer
        if row.type == "thought":
            answer.setdefault("thinking", "")
            answer["thinking"] += text
            answer["thinking_complete"] = False
        else:
            if not answer["content"]:
                answer["id"] = row.id
                answer["timestamp"] = row.timestamp
            if "thinking" in answer:
                answer["thinking_complete"] = True
            answer["content"] += text
        answer.setdefault("timestamp", row.timestamp)
        return [*changed, answer]

    def _end_answer(self) -> list[Message]:
        ended, self._answer = self._answer, None
        if ended is None or ended.get("thinking_complete", True):
            return []
        ended["thinking_complete"] = True
        return [ended]

    def _add_tool(self, row: Row) -> Message:
        content = row.parsed()
        call_id = str(content.get("tool_call_id") or row.id)
        key = (row.type, row.turn_id, call_id)
        message = self._tools.get(key)
        if message is None:
            message = {"id": row.id, "role": row.type, "tool_call_id": call_id, "timestamp": row.timestamp}
            call = self._tools.get(("tool_call", row.turn_id, call_id), {})
            message |= {field: call[field] for field in ("tool_name", "title") if field in call}
            self._tools[key] = message
            self.messages.append(message)
        if row.type == "tool_result":  # one that comes late replaces one with an unknown outcome
            message.pop("outcome", None)
        message |= {field: content[field] for field in _TOOL_FIELDS if content.get(field) is not None}
        return message

    def _add_marker(self, row: Row) -> Message:
        content = row.parsed()
        fields = {field: content[field] for field in _MARKER_FIELDS if content.get(field) is not None}
        earlier = self._markers.get(str(content.get("marker_id")))
        if row.type == MARKER_REDACTED and earlier is not None:
            earlier.pop("diagnostic", None)
            earlier |= {**fields, "redacted": True}
            return earlier
        message = {"id": row.id, "role": "marker", **fields, "timestamp": row.timestamp}
        if row.type == MARKER_REDACTED:
            message["redacted"] = True
        self._markers[row.id] = message
        self.messages.append(message)
        return message


def _text(content: dict[str, Any]) -> str:
    text = content.get("text")
    return text if isinstance(text, str) else ""
