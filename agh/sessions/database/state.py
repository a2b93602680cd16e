"""The tables of a log that are copied whole: permissions, questions and usage, each row with its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from agh.core.events import parse_content
from agh.sessions.database import schema
from agh.sessions.database.collect import seconds_between
from agh.store.reader import Reader

if TYPE_CHECKING:
    from sqlite_utils import Database

State = dict[str, list[dict[str, Any]]]

_PERMISSION = ("turn_id", *list(schema.TABLES["permissions"])[4:-1])
_QUESTION = (
    *("turn_id", "request_id", "tool_call_id", "message", "request", "status", "decision", "answer"),
    *("decided_by", "created_at", "decided_at"),
)
_USAGE = ("turn_id", *list(schema.TABLES["usage"])[3:])


def read_state(reader: Reader) -> State:
    """Read the tables that are copied whole."""
    questions = _select(reader, "questions", _QUESTION) if reader.has_questions else []
    for row in questions:
        question = parse_content(row.pop("request"))
        row |= {key: question.get(key) for key in ("mode", "url")}
        row["fields"] = orjson.dumps(question["fields"]).decode() if question.get("fields") else None
    return {
        "permissions": _select(reader, "permissions", _PERMISSION),
        "questions": questions,
        "usage": _select(reader, "token_usage", _USAGE),
    }


def _select(reader: Reader, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    rows = reader.fetch(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def write_state(db: Database, session_id: str, turns: dict[str, int], state: State) -> None:
    """Write the tables that are copied whole from the log."""
    for name in schema.STATE_TABLES:
        db.conn.execute(f"DELETE FROM {name} WHERE session_id = ?", [session_id])
    calls: dict[tuple[int | None, str], int] = {}
    if state["permissions"] or state["questions"]:
        sql = "SELECT turn, tool_call_id, id FROM tool_calls WHERE session_id = ?"
        calls = {(turn, call_id): id for turn, call_id, id in db.conn.execute(sql, [session_id])}
    for name, rows in state.items():
        for row in rows:
            row |= {"session_id": session_id, "turn": turns.get(row["turn_id"])}
            if "request_id" in row:
                row["tool_call"] = calls.get((row["turn"], row["tool_call_id"]))
                row["seconds"] = seconds_between(row["created_at"], row["decided_at"])
        if rows:
            columns = tuple(schema.TABLES[name])
            values = [tuple(row.get(column) for column in columns) for row in rows]
            db.table(name).insert_all([columns, *values], batch_size=1_000)
