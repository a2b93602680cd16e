"""What passes between a session and a file, and what exporters and importers are. Pure data.

A file that comes in was written by others: `checked` lets no row through that a reader could stumble
over, and only what a session is, not what it may do, is taken from a file that is not trusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from agh.core.events import Row

SCHEMA = "agh.session.export.v1"
TABLES = ("token_usage", "hook_runs", "inputs", "permissions")
_TIMESTAMP = r"(?a)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z"
_TYPE = r"(?a)[a-z][a-z0-9_.]{0,63}"
# What says who a session is and what became of it. Anything else decides what runs when it is resumed.
_TOLD: Mapping[str, type | tuple[type, ...]] = {
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
    "allowed_tools",
    "system_prompt",
    "mcp_servers",
    "place",
    "cwd",
    "worktree",
)


class TableRow(NamedTuple):
    """A row of a table other than the events."""

    table: str
    row: dict[str, Any]


@dataclass(frozen=True)
class Copy:
    """One moment of a session. `rows` may be called again; `database` writes it all as one SQLite file."""

    session: dict[str, Any]
    last_sequence: int
    tables: Mapping[str, list[dict[str, Any]]]
    rows: Callable[[], Iterator[Row]]
    database: Callable[[str], None]


@dataclass(frozen=True)
class Exporter:
    """`write` is given the copy and the path of an empty, private file to fill."""

    name: str
    meaning: str
    write: Callable[[Copy, str], None]
    suffixes: tuple[str, ...] = ()
    binary: bool = False


@dataclass(frozen=True)
class Imported:
    """A session as a file tells it: metadata, and rows in order.

    Without an `id` in the metadata its `acp_session_id` says which conversation it is: the same one is
    never imported twice, and what a grown file has more is appended. `source` is kept beside the file's
    name: what is worth knowing of it.
    """

    session: dict[str, Any]
    records: Iterable[Row | TableRow]
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Importer:
    """`recognises` is given a path and the file's first bytes; `read` raises ValueError with the reason."""

    name: str
    meaning: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[str], Imported]
    find: Callable[[], Iterable[str]] = tuple  # the files to import when none is named


def checked(row: Row) -> Row:
    """The row, if every reader can take it; ValueError says what is wrong with it."""
    number = row.sequence
    if type(number) is not int or not 0 < number < 1 << 63:
        raise ValueError(f"the sequence {number!r} is not a positive number")
    if not all(isinstance(field, str) for field in row[1:]):
        raise ValueError(f"event {number}: a field is not a text")
    if not re.fullmatch(_TYPE, row.type) or not re.fullmatch(_TIMESTAMP, row.timestamp):
        raise ValueError(f"event {number}: its type or its time is not one")
    if len(row.turn_id) > 200 or len(row.agent_name) > 200:
        raise ValueError(f"event {number}: the name of its turn or agent is too long")
    try:
        whole = isinstance(orjson.loads(row.content), dict)
    except orjson.JSONDecodeError:
        whole = False
    if not whole:
        raise ValueError(f"event {number}: its content is not a JSON object")
    return row


def told(session: Mapping[str, Any], *, trust: bool) -> dict[str, Any]:
    """What may be taken over of a file's metadata. A field of the wrong kind is refused."""
    taken: dict[str, Any] = {}
    for key, kind in _TOLD.items():
        value = session.get(key)
        if value is None:
            continue
        if not isinstance(value, kind):
            raise ValueError(f"the session's {key} cannot be {value!r:.80}")
        taken[key] = value
    for key in ("agent_name", "workspace_path", "created_at", "updated_at"):
        if not taken.get(key):
            raise ValueError(f"the session has no {key}")
    if not taken["workspace_path"].startswith("/"):
        raise ValueError("the session's workspace_path is not absolute")
    if not all(re.fullmatch(_TIMESTAMP, taken[key]) for key in ("created_at", "updated_at")):
        raise ValueError("the session's times cannot be read")
    if not all(isinstance(token, str) for token in taken.get("acp_session_ids", [])):
        raise ValueError("the session's acp_session_ids are not texts")
    return taken | {key: session[key] for key in TRUSTED if trust and session.get(key) is not None}
