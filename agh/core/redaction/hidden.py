"""Events whose text the user has redacted: which they are, and what is left of them. Pure.

A `transcript_marker.redacted` event names them. The log keeps what they said; nothing that agh shows or
copies does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from agh.core.events import CHAT_TYPES, MARKER_CREATED, Row, parse_content
from agh.core.redaction.redact import MARK
from agh.core.transcript import Assembler

REDACTABLE = (*CHAT_TYPES, MARKER_CREATED, "question")
# What an event keeps: it says what happened and when, not what was said.
_KEPT = {
    *("schema", "type", "session_id", "turn_id", "timestamp", "agent_id", "message_id", "tool_call_id"),
    *("tool_name", "tool_kind", "tool_error", "outcome", "request_id", "action", "decision", "decided_by"),
    *("kind", "severity", "occurred_at", "turn", "attempt", "wait_seconds"),
}
_TEXTS = ("text", "summary", "title", "resource", "message")


def hidden_sequences(contents: Iterable[str]) -> dict[int, bool]:
    """Return the sequences of the events that redactions hide, from the contents of the redactions.

    The value is true for the event that stands for its message: only that one shows that something is hidden.
    """
    hidden: dict[int, bool] = {}
    for content in contents:
        fields = parse_content(content)
        events = fields.get("events")
        for event in events if isinstance(events, list) else []:
            _add(hidden, event, False)
        _add(hidden, fields.get("marker_id"), True)
    return hidden


def _add(hidden: dict[int, bool], event: Any, is_first: bool) -> None:
    number = str(event).removeprefix("evt-")
    if number.isdecimal():
        hidden[int(number)] = is_first


def hide(row: Row, *, is_first: bool) -> Row:
    """Return what is left of a row that is redacted; only the first one of a message has the mark."""
    content = row.parsed()
    left: dict[str, Any] = {key: value for key, value in content.items() if key in _KEPT}
    left |= {key: MARK for key in _TEXTS if content.get(key)}
    if "text" in left and not is_first:
        left["text"] = ""
    if "tool_result" in content:
        left["tool_result"] = {"content": MARK}
    return row._replace(content=orjson.dumps(left | {"redacted": True}).decode())


def rows_with(rows: Iterable[Row], target: Row) -> list[Row]:
    """Return the rows of the turn that make up the target's message, and what was asked about its tool.

    A question and its answer belong together, whichever of them is the target.
    """
    assembler, by_message = Assembler(), dict[int, list[Row]]()
    group: list[Row] = [target]
    content = target.parsed()
    call_id = content.get("tool_call_id")
    questions = {content.get("request_id")} if target.type == "question" else set()
    asked: list[Row] = []
    for row in rows:
        if row.type in ("permission", "question"):
            request = row.parsed()
            if call_id is not None and request.get("tool_call_id") == call_id:
                asked.append(row)
                questions |= {request.get("request_id")} if row.type == "question" else set()
            elif row.type == "question" and request.get("request_id") in questions:
                asked.append(row)
        changed = assembler.feed(row)
        if changed and row.type in REDACTABLE:
            members = by_message.setdefault(id(changed[-1]), [])
            members.append(row)
            if row.sequence == target.sequence:
                group = members
    return sorted({*group, *asked})


def redaction(target: Row, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the content of the event that redacts a message or a marker."""
    content = target.parsed()
    is_marker = target.type == MARKER_CREATED
    return {
        "marker_id": target.id,
        "events": [row.id for row in rows],
        "kind": content.get("kind") if is_marker else "text_redacted",
        "severity": content.get("severity") if is_marker else "info",
        "summary": MARK if is_marker else f"the text of {target.id} was redacted",
        "occurred_at": content.get("occurred_at") if is_marker else target.timestamp,
    }
