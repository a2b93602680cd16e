"""The data that passes between a session and a file, and the types of exporters and importers. Pure.

Imported files were written by others. `check_row` rejects every row that could trip a reader, and a file
that is not trusted can only describe a session, never decide what it may do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agh.core.acp.long_text import loads
from agh.core.events import Row
from agh.core.named_tuple import NamedTuple

SCHEMA = "agh.session.export.v1"
TABLES = ("token_usage", "hook_runs", "inputs", "permissions", "questions")
ADDED_LATER = ("questions",)  # tables that a log or a file of an earlier version lacks
_TIMESTAMP = r"(?a)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z"
_TYPE = r"(?a)[a-z][a-z0-9_.]{0,63}"
# These describe a session and how it ended. Anything else decides what runs when it is resumed.
_DESCRIPTIVE: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "title": str,
    "model": str,
    "mode": str,
    "agent_name": str,
    "workspace_id": str,
    "workspace_path": str,
    "stop_reason": str,
    "stop_detail": str,
    "failure": dict,
    "acp_session_id": str,
    "acp_session_ids": list,
    "acp_caps": dict,
    "restore": dict,
    "spent": dict,
    "limits": dict,
    "forked_from": dict,
    "archived": bool,
    "created_at": str,
    "updated_at": str,
}
TRUSTED = (
    "command",
    "options",
    "permissions",
    "permission_rules",
    "allow_self_answers",
    "allowed_tools",
    "additional_directories",
    "system_prompt",
    "mcp_servers",
    "place",
    "cwd",
    "worktree",
)


class LongRow(NamedTuple):
    """A row of the events table whose very long content is UTF-8 instead of text, to save memory."""

    sequence: int
    turn_id: str
    type: str
    agent_name: str
    content: bytes
    timestamp: str


class TableRow(NamedTuple):
    """A row of a table other than the events."""

    table: str
    row: dict[str, Any]


Record = Row | LongRow | TableRow
AnyRow = TypeVar("AnyRow", bound=Row | LongRow)


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a session. `rows` can be called again; `database` writes it all as an SQLite file."""

    session: dict[str, Any]
    last_sequence: int
    tables: Mapping[str, list[dict[str, Any]]]
    rows: Callable[[], Iterator[Row]]
    database: Callable[[str], None]


@dataclass(frozen=True)
class Exporter:
    """A file format to export to. `write` gets the copy and the path of an empty, private file to fill."""

    name: str
    meaning: str
    write: Callable[[Snapshot, str], None]
    suffixes: tuple[str, ...] = ()
    binary: bool = False


@dataclass(frozen=True)
class Imported:
    """A session as described by a file: its metadata, and its rows in order.

    If the metadata has no `id`, its `acp_session_id` identifies the conversation: the same one is never
    imported twice, and only the new rows of a file that has grown are appended. `source` holds details
    about the file that are stored next to its name.
    """

    session: dict[str, Any]
    records: Iterable[Record]
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Importer:
    """A file format to import. `recognises` gets a path and the first bytes; `read` may raise ValueError."""

    name: str
    meaning: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[str], Imported]
    find: Callable[[], Iterable[str]] = tuple  # returns the files to import when none is named


def check_row(row: AnyRow) -> AnyRow:
    """Return the row if every reader can handle it; raise ValueError with the reason otherwise."""
    number = row.sequence
    if type(number) is not int or not 0 < number < 1 << 63:
        raise ValueError(f"the sequence of an event must be a positive whole number, not {number!r}")
    texts = [row.turn_id, row.type, row.agent_name, row.timestamp]
    if not all(isinstance(field, str) for field in texts) or not isinstance(
        row.content, bytes if isinstance(row, LongRow) else str
    ):
        raise ValueError(f"event {number}: a field is not a string")
    if not re.fullmatch(_TYPE, row.type) or not re.fullmatch(_TIMESTAMP, row.timestamp):
        raise ValueError(f"event {number}: its type or its timestamp is invalid")
    if len(row.turn_id) > 200 or len(row.agent_name) > 200:
        raise ValueError(f"event {number}: its turn_id or agent_name is longer than 200 characters")
    try:
        content = row.content.encode() if isinstance(row.content, str) else row.content
        is_object = isinstance(loads(content), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise ValueError(f"event {number}: its content is not a JSON object")
    return row


def select_metadata(session: Mapping[str, Any], *, trust: bool) -> dict[str, Any]:
    """Return the fields of a file's metadata that may be imported; raise ValueError if one is invalid."""
    selected: dict[str, Any] = {}
    for key, expected_type in _DESCRIPTIVE.items():
        value = session.get(key)
        if value is None:
            continue
        if not isinstance(value, expected_type):
            raise ValueError(f"the session's {key} has the wrong type: {value!r:.80}")
        selected[key] = value
    for key in ("agent_name", "workspace_path", "created_at", "updated_at"):
        if not selected.get(key):
            raise ValueError(f"the session has no {key}")
    if not selected["workspace_path"].startswith("/"):
        raise ValueError("the session's workspace_path is not absolute")
    if not all(re.fullmatch(_TIMESTAMP, selected[key]) for key in ("created_at", "updated_at")):
        raise ValueError("the session's created_at or updated_at is not a valid time")
    if not all(isinstance(session_id, str) for session_id in selected.get("acp_session_ids", [])):
        raise ValueError("the session's acp_session_ids are not strings")
    return selected | {key: session[key] for key in TRUSTED if trust and session.get(key) is not None}
