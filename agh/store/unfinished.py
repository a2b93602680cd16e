"""What a log leaves unfinished: turns, tool calls, requests and prompts. A repair closes them.

`repair --all` reads hundreds of logs, and a query takes 20 µs to prepare: so there are few of them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from agh.core.events import MARKER_REDACTED, TURN_END_TYPES, Row
from agh.core.named_tuple import NamedTuple
from agh.core.repair import OpenQuestion, Permission
from agh.store.reader import Query, Reader
from agh.store.schema import LANDMARK

_PERMISSIONS = (
    "SELECT request_id, turn_id, tool_call_id, action, resource FROM permissions "
    "WHERE status = 'pending' ORDER BY created_at, request_id"
)
_QUESTIONS = (
    "SELECT request_id, turn_id, tool_call_id FROM questions "
    "WHERE status = 'pending' ORDER BY created_at, request_id"
)
_PROMPTS = "SELECT turn_id FROM inputs WHERE status = 'dispatching' ORDER BY id"
_NOTHING = "SELECT 1 WHERE 0"


class Unfinished(NamedTuple):
    """What is unfinished in a log, and how far the log goes."""

    last_sequence: int
    permissions: list[Permission]
    questions: list[OpenQuestion]
    prompts: list[str]  # turns whose prompts were being sent
    rows: list[Row]  # of the open turns, and of tool calls without a result
    ended: set[str]  # turns
    has_stopped: bool  # the log says that the session stopped, and nothing of it being live again


def read_unfinished(reader: Reader, *, thorough: bool) -> Unfinished:
    """Read what is unfinished; if `thorough`, also the tool calls that ended turns have left open."""
    last_sequence, (permissions, questions, prompts) = _read_pending(reader)
    landmarks = _Landmarks(reader)
    rows = [
        row
        for turn_id, first in landmarks.open.items()
        for row in reader.all_rows(Query(turn=turn_id), first - 1, any_redacted=landmarks.any_redacted)
    ]
    if thorough:
        rows += _open_call_rows(reader, besides=landmarks.open)
    return Unfinished(
        last_sequence,
        list(map(Permission._make, permissions)),
        list(map(OpenQuestion._make, questions)),
        [turn_id for (turn_id,) in prompts],
        sorted(rows),
        landmarks.ended,
        landmarks.has_stopped,
    )


def _read_pending(reader: Reader) -> tuple[int, list[list[Any]]]:
    """Return the last sequence, and the requests, questions and prompts that are pending: mostly none."""
    queries = (_PERMISSIONS, _QUESTIONS if reader.has_questions else _NOTHING, _PROMPTS)
    any_of_each = ", ".join(f"EXISTS({query})" for query in queries)
    sql = f"SELECT (SELECT coalesce(max(sequence), 0) FROM events), {any_of_each}"
    ((last, *exists),) = reader.fetch(sql)
    return last, [reader.fetch(query) if any_ else [] for query, any_ in zip(queries, exists, strict=True)]


class _Landmarks:
    """What the landmarks of a log say about its turns and its end; found without scanning the log."""

    def __init__(self, reader: Reader) -> None:
        self.open: dict[str, int] = {}  # turns without an end, and where each begins
        self.ended: set[str] = set()  # the other turns
        last_of: dict[str, int] = {}
        columns = "type, turn_id, min(sequence), max(sequence)"
        groups = reader.fetch(f"SELECT {columns} FROM events WHERE {LANDMARK} GROUP BY type, turn_id")
        for event_type, turn_id, first, last in groups:
            last_of[event_type] = max(last, last_of.get(event_type, 0))
            if turn_id:
                self.open[turn_id] = min(first, self.open.get(turn_id, first))
                if event_type in TURN_END_TYPES:
                    self.ended.add(turn_id)
        for turn_id in self.ended:
            del self.open[turn_id]
        self.any_redacted = MARKER_REDACTED in last_of
        stopped = max(last_of.get("session_stopped", 0), last_of.get("session_paused", 0))
        self.has_stopped = stopped > max(last_of.get("session_resumed", 0), last_of.get("user_message", 0))


def _open_call_rows(reader: Reader, besides: Container[str]) -> list[Row]:
    """Return the rows of every tool call without a result, besides those of some turns."""
    call_id = "coalesce(CASE WHEN json_valid(content) THEN nullif(content->>'$.tool_call_id', '') END, id)"
    calls = reader.fetch(  # this takes half as long as looking each call up among the results
        "SELECT turn_id, group_concat(sequence) FROM events "
        "WHERE (type = 'tool_call' OR type = 'tool_result') AND turn_id != '' "
        f"GROUP BY turn_id, {call_id} HAVING max(type = 'tool_result') = 0"
    )
    sequences = [int(word) for turn_id, words in calls if turn_id not in besides for word in words.split(",")]
    return reader.all_rows(Query(sequences=tuple(sequences))) if sequences else []
