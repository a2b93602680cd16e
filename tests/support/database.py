"""A database that `agh db build` made, read back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agh.core.events import draft
from agh.store.writer import Writer
from tests.support.build import AT, Home, calls, conversation, returns, says, take_lock, user

TABLES = ("sessions", "turns", "messages", "tool_calls", "tool_results", "files", "permissions", "usage")
TABLES += ("questions",)
TABLES += ("markers", "failures")


def select(path: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql, values).fetchall()


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row, without ids that depend on the order of insertion; check that the file is sound."""
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        for name in ("messages", "tool_results"):
            db.execute(f"INSERT INTO {name}_fts({name}_fts, rank) VALUES ('integrity-check', 1)")
        tables = {}
        for name in TABLES:
            columns = [column for _, column, *_ in db.execute(f"PRAGMA table_info({name})")]
            if name in ("files", "permissions", "questions", "usage"):
                columns.remove("id")
            tables[name] = sorted(db.execute(f"SELECT {', '.join(columns)} FROM {name}"), key=repr)
        return tables


def append(directory: Path, *drafts: Any) -> None:
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append(drafts)


def rich(home: Home, **fields: Any) -> Path:
    """A session with a row in every table."""
    raw = {"kind": "edit", "locations": [{"path": "/repo/a.py"}, {"path": "/repo/b.py"}]}
    diff = {"type": "diff", "path": "/repo/a.py", "oldText": "1", "newText": "2"}
    turn = "turn-2"
    directory = home.session(
        [
            *conversation(),
            user("Change it", turn=turn, at="2026-04-16T02:00:00.000Z"),
            calls("call-2", "Edit", turn=turn, title="Edit a.py", raw=raw, at="2026-04-16T02:00:01.000Z"),
            returns(
                "call-2",
                turn=turn,
                tool_result={"content": "patched", "structured_patch": [diff], "file_path": "/repo/a.py"},
                at="2026-04-16T02:00:03.500Z",
            ),
            calls("call-3", "Bash", turn=turn, tool_input={"command": "false"}),
            returns("call-3", turn=turn, tool_result={"error": "exit 1"}, tool_error=True),
            says("It is ", turn=turn),
            says("zebra done.", turn=turn),
            draft(
                "error", turn_id=turn, error="overloaded", stop_reason="error", at="2026-04-16T02:00:09.000Z"
            ),
            draft("session_stopped", failure={"kind": "process_exit", "summary": "it died"}),
        ],
        **{"spent": {"cost_amount": 0.75, "cost_currency": "USD"}, **fields},
    )
    with take_lock(directory) as owner, Writer(owner, "general") as log, log.transaction() as db:
        db.execute(
            "INSERT INTO token_usage (turn_id, input_tokens, total_tokens, cost_amount, cost_currency, "
            "timestamp) VALUES ('turn-1', 7, 9, 0.5, 'USD', ?), ('turn-2', 1, 2, 0.25, 'USD', ?)",
            [AT, AT],
        )
        db.execute(
            "INSERT INTO permissions (request_id, turn_id, tool_call_id, status, action, request, decision, "
            "decided_by, created_at, decided_at) VALUES ('r1', 'turn-2', 'call-2', 'decided', 'edit', '{}', "
            "'allowed', 'user', '2026-04-16T02:00:01.000Z', '2026-04-16T02:00:02.000Z')"
        )
        db.execute(
            "INSERT INTO questions (request_id, turn_id, tool_call_id, status, message, request, decision, "
            "answer, decided_by, created_at, decided_at) VALUES ('q1', 'turn-2', 'call-2', 'decided', "
            "'Which one?', ?, 'accepted', '{\"answer\":\"both\"}', 'user', '2026-04-16T02:00:01.000Z', "
            "'2026-04-16T02:00:03.000Z')",
            ['{"mode":"form","fields":[{"name":"answer","type":"string"}],"url":null}'],
        )
    return directory
