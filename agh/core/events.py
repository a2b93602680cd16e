"""Events: their types, the content they carry, and the one JSON form in which they are printed.

A stored row keeps `content` as JSON text. Printing splices that text into the envelope without parsing it,
so what an agent sent is printed unchanged and a million rows don't cost a million parses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

import orjson

from agh.core.acp.long_text import LONG_STRING, join_pieces
from agh.core.display.times import timestamp as timestamp
from agh.core.named_tuple import NamedTuple

SCHEMA = "agh.session.event.v1"

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
    "question",
    "usage",
    "runtime_progress",
    "runtime_warning",
    "event_lost",
    "system",
    *TURN_END_TYPES,
    *LIFECYCLE_TYPES,
    *MARKER_TYPES,
)
TOOL_NAMES = ("tool_name", "tool_kind", "title")  # what a tool call and its result are known by
UNKNOWN_OUTCOME = "the outcome is unknown: the session was interrupted while the tool ran"


_NAMES = itemgetter(2, 3, 4)

# A row as SQLite stores it, in UTF-8: its sequence twice, turn, type, agent, content, time.
RawRow = tuple[int, int, bytes, bytes, bytes, bytes, bytes]


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
    """An event that has no sequence number yet, for a writer to append.

    Very long content is in `pieces` of UTF-8, and `content` is then empty. The writer joins them after the
    frame they point into has been freed.
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


def parse_content(content: str) -> dict[str, Any]:
    """Parse the content; return an empty mapping if it is not a JSON object."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def draft(
    type: str, *, turn_id: str = "", agent_session: str | None = None, at: str | None = None, **fields: Any
) -> Draft:
    """Draft an event and fill in the shared content fields; leave out fields that are None."""
    return draft_of(type, turn_id, agent_session, at or timestamp(), fields)


def draft_of(
    type: str,
    turn_id: str,
    agent_session: str | None,
    at: str,
    fields: dict[str, Any],
    raw: bytes | memoryview | None = None,
) -> Draft:
    """Draft an event from a mapping of fields, such as those of every chunk of a stream.

    `raw` is JSON text as the agent sent it; it becomes the field of that name.
    """
    if None in fields.values():
        fields = {key: value for key, value in fields.items() if value is not None}
    head = _encode_head(type, agent_session, turn_id, at)
    if raw is not None and len(raw) > LONG_STRING:
        opening, *rest = join_pieces({**fields, "raw": None})
        *rest, closing = [memoryview(opening)[1:], *rest]
        closing = memoryview(closing)[: -len(b"null}")]
        return Draft(type, turn_id, "", at, (head.encode(), b",", *rest, closing, raw, b"}"))
    if raw is not None:
        fields = {**fields, "raw": orjson.Fragment(bytes(raw))}
    content = f"{head},{orjson.dumps(fields)[1:].decode()}" if fields else head + "}"
    return Draft(type, turn_id, content, at)


@lru_cache(64)
def _encode_head(type: str, agent_session: str | None, turn_id: str, at: str) -> str:
    """Return the shared fields as JSON without the closing brace; cached because a batch shares them."""
    shared = {
        "schema": SCHEMA,
        "type": type,
        "session_id": agent_session,
        "turn_id": turn_id,
        "timestamp": at,
    }
    return orjson.dumps(shared)[:-1].decode()


def marker(kind: str, summary: str, *, severity: str = "info", at: str | None = None, **fields: Any) -> Draft:
    """Draft a marker, a note in the transcript about the session itself."""
    at = at or timestamp()
    fields |= {"kind": kind, "severity": severity, "summary": summary, "occurred_at": at}
    return draft(MARKER_CREATED, at=at, **fields)


def unknown_result(call_id: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `tool_result` for a call that nobody saw finish, which is never a success."""
    return {
        "tool_call_id": call_id,
        **{name: call.get(name) for name in TOOL_NAMES},
        "tool_result": {"error": UNKNOWN_OUTCOME},
        "tool_error": True,
        "outcome": "unknown",
    }


def quoted(text: str) -> str:
    """Format text as a JSON string."""
    return orjson.dumps(text).decode()


def envelopes(
    rows: Iterable[Row], session_id: str, workspace_id: str | None, workspace_path: str | None
) -> Iterator[str]:
    """Yield each row as one line of JSON, without a newline at its end."""
    head = f'","session_id":{quoted(session_id)},"sequence":'
    workspace = f',"workspace_id":{_quote_or_null(workspace_id)},"workspace_path":'
    workspace += f'{_quote_or_null(workspace_path)},"content":'
    middles: dict[tuple[str, str, str], str] = {}
    for sequence, turn_id, type, agent_name, content, at in rows:
        middle = middles.get((turn_id, type, agent_name))
        if middle is None:
            if len(middles) > 10_000:
                middles.clear()
            names = f'"turn_id":{quoted(turn_id)},"type":{quoted(type)},"agent_name":{quoted(agent_name)}'
            middle = f",{names}{workspace}"
            middles[turn_id, type, agent_name] = middle
        if "\n" in content or "\r" in content:  # only between tokens: inside strings they are escaped
            content = content.replace("\n", " ").replace("\r", " ")
        yield f'{{"id":"evt-{sequence:06d}{head}{sequence}{middle}{content},"timestamp":"{at}"}}'


def from_raw(row: RawRow) -> Row:
    turn_id, type, agent_name, content, timestamp = (text.decode() for text in row[2:])
    return Row(row[0], turn_id, type, agent_name, content, timestamp)


def to_raw(row: Row) -> RawRow:
    turn_id, type, agent_name, content, timestamp = (text.encode() for text in row[1:])
    return row.sequence, row.sequence, turn_id, type, agent_name, content, timestamp


def joined_envelopes(
    rows: list[RawRow], envelope_of: tuple[str, str | None, str | None], plain: set[tuple[bytes, ...]]
) -> bytes:
    """Return the lines of `envelopes`, each with a newline, for rows in UTF-8; three times as fast.

    `envelope_of` is the session and its workspace; `plain` keeps names that need no escapes for the next
    call.
    """
    if len(plain) > 10_000:
        plain.clear()
    names = set(map(_NAMES, rows)) - plain
    if all(quoted(text.decode()).encode() == b'"%s"' % text for key in names for text in key):
        plain |= names
        session_id, workspace_id, workspace_path = envelope_of
        ids = f'","session_id":{quoted(session_id)},"sequence":'
        workspace = f'"workspace_id":{_quote_or_null(workspace_id)},"workspace_path":'
        workspace += f'{_quote_or_null(workspace_path)},"content":'
        ids, workspace = ids.replace("%", "%%"), workspace.replace("%", "%%")
        head = f'{{"id":"evt-%06d{ids}%d,"turn_id":"%s","type":"%s","agent_name":"%s",{workspace}'
        line = f'{head}%s,"timestamp":"%s"}}\n'.encode()
        text = b"".join([line % row for row in rows])
        if text.count(b"\n") == len(rows) and b"\r" not in text:
            text.decode()  # raises an error for what is not UTF-8
            return text
    lines = envelopes(map(from_raw, rows), *envelope_of)
    return "".join(f"{line}\n" for line in lines).encode()


def _quote_or_null(text: str | None) -> str:
    return "null" if text is None else quoted(text)
