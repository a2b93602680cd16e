"""What the log says of a parked prompt, for a session whose keeper died before its metadata said so.

Promises: the log decides. A prompt that waits in the queue for a reset is found whenever its keeper was
killed, and a queue with nothing in it leaves nothing parked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.acp.usage_limit import is_notice
from agh.core.named_tuple import NamedTuple
from agh.store.reader import Reader
from agh.store.schema import LANDMARK

_QUEUED = "SELECT id, turn_id FROM inputs WHERE status = 'queued' ORDER BY id"
_ENDS = (
    "SELECT turn_id, content ->> '$.next_turn_id', content ->> '$.resumes_at', timestamp FROM events "
    f"WHERE type = 'error' AND {LANDMARK} AND json_valid(content) "
    "AND content ->> '$.next_turn_id' IS NOT NULL"
)
_WORDS = (
    "SELECT group_concat(coalesce(content ->> '$.text', ''), '') FROM "
    "(SELECT content FROM events WHERE turn_id = ? AND type = 'agent_message' ORDER BY sequence)"
)
_CALLS = "SELECT 1 FROM events WHERE turn_id = ? AND type = 'tool_call' LIMIT 1"


class _End(NamedTuple):
    """How a turn ended that met a usage limit; `next_turn_id` is the turn that its prompt gets."""

    turn_id: str
    next_turn_id: str
    resumes_at: str
    timestamp: str


def parking_fields(reader: Reader, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return `resumes_at` and `limited` as the log has them; what the metadata knows already stays."""
    queued = reader.fetch(_QUEUED)
    if not queued:
        return {"resumes_at": None, "limited": None}
    if metadata.get("resumes_at"):
        return {}
    ends = {end.next_turn_id: end for end in map(_End._make, reader.fetch(_ENDS))}
    for input_id, turn_id in queued:
        if turn_id in ends:
            return _describe(reader, metadata, input_id, turn_id, ends)
    return {}


def _describe(
    reader: Reader, metadata: Mapping[str, Any], input_id: int, turn_id: str, ends: dict[str, _End]
) -> dict[str, Any]:
    """Return the fields of a prompt that waits for the turn `turn_id`."""
    last, turns = ends[turn_id], []
    while turn_id in ends and ends[turn_id].turn_id not in turns:
        turn_id = ends[turn_id].turn_id
        turns.append(turn_id)
    limited = metadata.get("limited") or {}
    earlier = limited if limited.get("input_id") == input_id else {}
    return {
        "resumes_at": last.resumes_at,
        "limited": {
            "input_id": input_id,
            "since": last.timestamp,
            "windows": len(turns),
            "begun": any(_has_begun(reader, turn) for turn in turns),
            "path": earlier.get("path") or (metadata.get("launch") or {}).get("path"),
            "variables": earlier.get("variables") or [],
        },
    }


def _has_begun(reader: Reader, turn_id: str) -> bool:
    """Tell whether the agent did or said anything in a turn but that there is a limit."""
    ((words,),) = reader.fetch(_WORDS, [turn_id])
    return bool(reader.fetch(_CALLS, [turn_id])) or bool(words and not is_notice(words))
