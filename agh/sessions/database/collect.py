"""Turning the events of a session into rows of the database. Pure.

A message is one row, however many chunks it came in: rows are joined as in the transcript, prompt by prompt.
What a prompt led to does not depend on anything after the next prompt, so a log that has grown is read again
only from its last prompt. The exceptions are in `late` and `hidden`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from agh.core.acp.frames import only_dicts
from agh.core.events import MARKER_REDACTED, TURN_END_TYPES, Row
from agh.core.markdown import result_text
from agh.core.transcript import Assembler, Message
from agh.sessions.database.schema import EVENT_TABLES, SPACING, TABLES

Tables = dict[str, list[tuple[Any, ...]]]
Fields = dict[str, Any]
_FAILURES = ("session_stopped", "session_paused", *TURN_END_TYPES)
_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path")


class Collector:
    """Takes rows in order of sequence; `take` returns the rows of the database that no later row can change.

    `start` and `at` are the sequence and the time of the open prompt. `turns` maps the turns of the session
    to their ids. `late` are tool results and ends of turns that belong to an earlier prompt; `hidden` are
    redacted markers of an earlier prompt.
    """

    def __init__(self, session_id: str, number: int, start: int, at: str, turns: dict[str, int]) -> None:
        self.session_id, self.turns = session_id, turns
        self.start, self.at = start, at
        self.late: list[tuple[str, Fields]] = []
        self.hidden: list[tuple[int, Fields]] = []
        self.size = 0
        self._base = number * SPACING
        self._tables: Tables = {name: [] for name in EVENT_TABLES}
        self._start_prompt()

    def feed(self, rows: Iterable[Row]) -> None:
        """Take the next rows of the log."""
        for row in rows:
            if row.type == "user_message":
                self.finish()
                self.start, self.at = row.sequence, row.timestamp
            self._note_turn(row)
            self._turn_ids[row.sequence] = row.turn_id
            if row.type in ("tool_call", "tool_result"):
                self._add_files(row)
            elif row.type in _FAILURES:
                self._add_failure(row)
            elif row.type == MARKER_REDACTED:
                self._hide(row)
            self._assembler.feed(row)

    def finish(self) -> None:
        """End the open prompt and start the next one."""
        calls: dict[tuple[str, str], Fields] = {}
        results = []
        for message in self._assembler.messages:
            sequence = int(message["id"][4:])
            fields = self._event_fields(sequence, self._turn_ids[sequence])
            key = (self._turn_ids[sequence], str(message.get("tool_call_id")))
            if message["role"] == "tool_call":
                calls[key] = fields | _call_fields(message, self._kinds.get(key))
            elif message["role"] == "tool_result":
                results.append((key, fields | _result_fields(message)))
            elif message["role"] == "marker":
                self._add("markers", fields | _marker_fields(message))
            else:
                self._add("messages", message | fields)
        for key, result in results:
            call = calls.get(key)
            if call is None:
                self.late.append(("tool_results", result))
            else:
                result["tool_call"] = call["id"]
                call |= end_of_call(call["started_at"], result)
            self._add("tool_results", result)
        for call in calls.values():
            self._add("tool_calls", call)
        for key, path, fields in self._files:
            self._add("files", fields | {"path": path, "tool_call": calls.get(key, {}).get("id")})
        for turn in self._open_turns.values():
            self._add("turns", turn)
        self._start_prompt()

    def take(self) -> Tables:
        """Return the rows collected so far, and forget them."""
        tables, self._tables, self.size = self._tables, {name: [] for name in EVENT_TABLES}, 0
        return tables

    def _start_prompt(self) -> None:
        self._assembler = Assembler()
        self._turn_ids: dict[int, str] = {}
        self._open_turns: dict[str, Fields] = {}
        self._kinds: dict[tuple[str, str], str] = {}
        self._files: list[tuple[tuple[str, str], str, Fields]] = []

    def _event_fields(self, sequence: int, turn_id: str) -> Fields:
        return {
            "id": self._base + sequence,
            "session_id": self.session_id,
            "turn": self.turns.get(turn_id),
            "sequence": sequence,
        }

    def _add(self, table: str, fields: Mapping[str, Any]) -> None:
        row = tuple(fields.get(column) for column in TABLES[table])
        self._tables[table].append(row)
        self.size += 1 + sum(len(value) for value in row if isinstance(value, str)) // 1000

    def _note_turn(self, row: Row) -> None:
        """Start, extend or end the turn of a row."""
        if not row.turn_id:
            return
        ends: Fields = {}
        if row.type in TURN_END_TYPES:
            content = row.parsed()
            reason = content.get("stop_reason") or ("error" if row.type == "error" else "end_turn")
            ends = {
                "ended_at": row.timestamp,
                "stop_reason": str(reason),
                "error": _text(content.get("error")),
            }
        if row.turn_id not in self.turns:
            self.turns[row.turn_id] = self._base + row.sequence
            self._open_turns[row.turn_id] = {
                **self._event_fields(row.sequence, row.turn_id),
                "turn_id": row.turn_id,
                "agent_name": row.agent_name,
                "started_at": row.timestamp,
            }
        turn = self._open_turns.get(row.turn_id)
        if turn is None:
            if ends:
                self.late.append(("turns", ends | {"id": self.turns[row.turn_id], "sequence": row.sequence}))
            return
        turn["last_sequence"] = row.sequence
        if ends and not turn.get("ended_at"):
            turn |= ends | {"seconds": seconds_between(turn["started_at"], row.timestamp)}

    def _add_files(self, row: Row) -> None:
        """Note the files that a tool call names, each once."""
        content = row.parsed()
        raw = content.get("raw")
        raw = raw if isinstance(raw, dict) else {}
        key = (row.turn_id, str(content.get("tool_call_id") or row.id))
        if isinstance(kind := content.get("tool_kind") or raw.get("kind"), str):
            self._kinds[key] = kind
        names = {(call, path) for call, path, _ in self._files}
        for path, is_changed in _paths(content, raw):
            if (key, path) not in names:
                names.add((key, path))
                action = "edit" if is_changed else self._kinds.get(key) or content.get("tool_name")
                fields = self._event_fields(row.sequence, row.turn_id)
                self._files.append((key, path, {**fields, "id": None, "action": _text(action)}))
                self._files[-1][2]["timestamp"] = row.timestamp
            elif is_changed:
                for call, earlier, fields in self._files:
                    if (call, earlier) == (key, path):
                        fields["action"] = "edit"

    def _add_failure(self, row: Row) -> None:
        content = row.parsed()
        failure = content.get("failure")
        if isinstance(failure, dict):
            kind, summary = failure.get("kind"), failure.get("summary")
        elif row.type == "error":
            kind, summary = f"turn_{content.get('stop_reason') or 'error'}", content.get("error")
        else:
            return
        fields = self._event_fields(row.sequence, row.turn_id)
        fields |= {"type": row.type, "kind": _text(kind), "summary": _text(summary)}
        self._add("failures", fields | {"timestamp": row.timestamp})

    def _hide(self, row: Row) -> None:
        content = row.parsed()
        number = str(content.get("marker_id")).removeprefix("evt-")
        if number.isdecimal() and int(number) < self.start:
            self.hidden.append((int(number), {key: _text(content.get(key)) for key in ("kind", "summary")}))


def seconds_between(start: str, end: str) -> float | None:
    """Return the time between two timestamps; None if one of them cannot be read."""
    try:
        elapsed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    except (ValueError, TypeError):
        return None
    return round(elapsed.total_seconds(), 3)


def end_of_call(started_at: str, result: Mapping[str, Any]) -> Fields:
    """Return the columns of a tool call that its result fills."""
    ended_at = result["timestamp"]
    seconds = seconds_between(started_at, ended_at)
    return {"ended_at": ended_at, "seconds": seconds, "outcome": result["outcome"]}


def session_fields(view: Mapping[str, Any], last_sequence: int) -> Fields:
    """Return the row of a session, from the form in which commands show it."""
    failure, spent, origin = (view.get(key) or {} for key in ("failure", "spent", "forked_from"))
    fields = {column: view.get(column) for column in TABLES["sessions"]}
    fields |= {"failure_kind": failure.get("kind"), "failure_summary": failure.get("summary")}
    fields |= {"cost_amount": spent.get("cost_amount"), "cost_currency": spent.get("cost_currency")}
    fields |= {"forked_from": origin.get("session_id"), "archived": int(bool(view.get("archived")))}
    fields["events"] = last_sequence
    return {
        key: value if isinstance(value, int | float | None) else _text(value) for key, value in fields.items()
    }


def _call_fields(message: Message, kind: str | None) -> Fields:
    fields = {key: _text(message.get(key)) for key in ("tool_call_id", "tool_name", "title")}
    tool_input = message.get("tool_input")
    return {
        **fields,
        "kind": kind,
        "started_at": message["timestamp"],
        "input": None if tool_input is None else orjson.dumps(tool_input).decode(),
    }


def _result_fields(message: Message) -> Fields:
    return {
        **{key: _text(message.get(key)) for key in ("tool_call_id", "tool_name")},
        "outcome": _text(message.get("outcome") or ("failed" if message.get("tool_error") else "ok")),
        "timestamp": message["timestamp"],
        "text": result_text(message.get("tool_result")),
    }


def _marker_fields(message: Message) -> Fields:
    texts = ("kind", "severity", "summary", "diagnostic", "occurred_at")
    fields = {key: _text(message.get(key)) for key in texts}
    return {**fields, "redacted": int(bool(message.get("redacted")))}


def _paths(content: Fields, raw: Fields) -> Iterator[tuple[str, bool]]:
    """Yield the paths that a tool's event names, and whether the event shows a change to the file."""
    result, tool_input = content.get("tool_result"), content.get("tool_input")
    result = result if isinstance(result, dict) else {}
    blocks = [*only_dicts(result.get("structured_patch")), *only_dicts(raw.get("content"))]
    changed = [block.get("path") for block in blocks if block.get("type", "diff") == "diff"]
    named = [location.get("path") for location in only_dicts(raw.get("locations"))]
    named += [result.get("file_path")]
    if isinstance(tool_input, dict):
        named += [tool_input.get(key) for key in _PATH_KEYS]
    for path in changed:
        if isinstance(path, str) and path:
            yield path, True
    for path in named:
        if isinstance(path, str) and path:
            yield path, False


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()
