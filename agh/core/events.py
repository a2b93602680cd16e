"""Events: the types, the content they carry, and the one JSON form in which they are printed.

A stored row keeps `content` as JSON text. Printing splices that text into the envelope unparsed, so
what an agent sent comes out as it came in and a million rows cost no million parses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

SCHEMA = "agh.session.event.v1"
LONG = 1 << 20  # bytes of a frame; what is longer is copied as seldom as can be

CHAT_TYPES = ("user_message", "agent_message", "thought", "tool_call", "tool_result")
MARKER_CREATED, MARKER_REDACTED = "transcript_marker.created", "transcript_marker.redacted"
MARKER_TYPES = (MARKER_CREATED, MARKER_REDACTED)
LIFECYCLE_TYPES = (
    "session_stopped",
    "session_paused",
    "session_resumed",
    "session_attached",
    "session_detached",
)
TURN_END_TYPES = ("done", "error")
TYPES = (
    *CHAT_TYPES,
    "plan",
    "permission",
    "usage",
    "runtime_progress",
    "runtime_warning",
    "system",
    *TURN_END_TYPES,
    *LIFECYCLE_TYPES,
    *MARKER_TYPES,
)


class Row(NamedTuple):
    """One row of the events table, as stored: `content` is JSON text."""

    sequence: int
    turn_id: str
    type: str
    agent_name: str
    content: str
    timestamp: str

    @property
    def id(self) -> str:
        return event_id(self.sequence)

    def parsed(self) -> dict[str, Any]:
        return parse_content(self.content)


class Draft(NamedTuple):
    """An event that has no sequence yet: what a writer is given to append.

    Content that is very long comes in pieces of UTF-8, and `content` is empty: to join them is left to the
    writer, who does it once the frame they were taken from is gone.
    """

    type: str
    turn_id: str
    content: str
    timestamp: str
    pieces: tuple[bytes | memoryview, ...] = ()

    def whole(self) -> str:
        """Return the content, joined if it is in pieces."""
        return self.content or b"".join(self.pieces).decode()


def event_id(sequence: int) -> str:
    return f"evt-{sequence:06d}"


def timestamp(when: datetime | None = None) -> str:
    """UTC, RFC 3339, milliseconds, Z."""
    when = when.astimezone(UTC) if when else datetime.now(UTC)
    return when.isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"


def parse_content(content: str) -> dict[str, Any]:
    """The content as a mapping; content that is not a JSON object reads as empty."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def draft(
    type: str, *, turn_id: str = "", agent_session: str | None = None, at: str | None = None, **fields: Any
) -> Draft:
    """An event with the shared content fields filled in; fields that are None are left out."""
    return draft_of(type, turn_id, agent_session, at or timestamp(), fields)


def draft_of(
    type: str,
    turn_id: str,
    agent_session: str | None,
    at: str,
    fields: dict[str, Any],
    raw: bytes | memoryview | None = None,
) -> Draft:
    """The same for fields that are at hand as a mapping: one is made for every chunk of a stream.

    `raw` is JSON as the agent sent it, and becomes the field of that name.
    """
    if None in fields.values():
        fields = {key: value for key, value in fields.items() if value is not None}
    head = _head(type, agent_session, turn_id, at)
    if raw is not None and len(raw) > LONG:
        body = memoryview(orjson.dumps(fields))[1:-1]
        start = (head.encode(), b"," if body else b"", body)
        return Draft(type, turn_id, "", at, (*start, b',"raw":', raw, b"}"))
    if raw is not None:
        fields = {**fields, "raw": orjson.Fragment(bytes(raw))}
    content = f"{head},{orjson.dumps(fields)[1:].decode()}" if fields else head + "}"
    return Draft(type, turn_id, content, at)


@lru_cache(64)
def _head(type: str, agent_session: str | None, turn_id: str, at: str) -> str:
    """The shared fields as JSON without the closing brace: the same for the chunks of one batch."""
    shared = {
        "schema": SCHEMA,
        "type": type,
        "session_id": agent_session,
        "turn_id": turn_id,
        "timestamp": at,
    }
    return orjson.dumps(shared)[:-1].decode()


def marker(kind: str, summary: str, *, severity: str = "info", at: str | None = None, **fields: Any) -> Draft:
    at = at or timestamp()
    fields |= {"kind": kind, "severity": severity, "summary": summary, "occurred_at": at}
    return draft(MARKER_CREATED, at=at, **fields)


def quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def envelopes(
    rows: Iterable[Row], session_id: str, workspace_id: str | None, workspace_path: str | None
) -> Iterator[str]:
    """Each row as one line of JSON (no newline at its end)."""
    head = f'","session_id":{quoted(session_id)},"sequence":'
    workspace = f',"workspace_id":{_quoted_or_null(workspace_id)},"workspace_path":'
    workspace += f'{_quoted_or_null(workspace_path)},"content":'
    middles: dict[tuple[str, str, str], str] = {}
    for sequence, turn_id, type, agent_name, content, at in rows:
        middle = middles.get((turn_id, type, agent_name))
        if middle is None:
            if len(middles) > 10_000:
                middles.clear()
            names = f'"turn_id":{quoted(turn_id)},"type":{quoted(type)},"agent_name":{quoted(agent_name)}'
            middle = f",{names}{workspace}"
            middles[turn_id, type, agent_name] = middle
        if "\n" in content or "\r" in content:  # white space between tokens: inside strings it is escaped
            content = content.replace("\n", " ").replace("\r", " ")
        yield f'{{"id":"evt-{sequence:06d}{head}{sequence}{middle}{content},"timestamp":"{at}"}}'


def _quoted_or_null(text: str | None) -> str:
    return "null" if text is None else quoted(text)
