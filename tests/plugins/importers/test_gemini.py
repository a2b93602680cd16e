"""Chats that Gemini CLI kept, as sessions; the lines are such as the program writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agh.home import Session
from agh.store.reader import Reader
from agh.store.views import messages
from tests.support.build import Home
from tests.support.program import Agh

GEMINI = "0d5c0fd3-5b0b-4a52-8f6c-5f2f5a1b7e11"
START = {"sessionId": GEMINI, "projectHash": "ab" * 32, "startTime": "2026-01-20T11:00:00.000Z"}


def message(number: int, type: str, content: Any, **fields: Any) -> dict[str, Any]:
    at = f"2026-01-20T11:00:{number:02d}.000Z"
    return {"id": f"m{number}", "timestamp": at, "type": type, "content": content, **fields}


CALL = {
    "id": "grep-1",
    "name": "search_file_content",
    "args": {"pattern": "login"},
    "status": "success",
    "displayName": "SearchText",
    "description": "'login'",
    "result": [{"functionResponse": {"id": "grep-1", "response": {"output": "login.py:3"}}}],
}
TOKENS = {"input": 100, "output": 20, "cached": 7, "thoughts": 5, "tool": 0, "total": 125}
THOUGHT = {"subject": "Search", "description": "for the login", "timestamp": "2026-01-20T11:00:02.000Z"}
LINES: list[dict[str, Any]] = [
    START,
    message(1, "user", [{"text": "<session_context>today</session_context>"}]),
    message(2, "user", [{"text": "Why does the "}, {"text": "login fail?"}]),
    {"$set": {"lastUpdated": "2026-01-20T11:00:02.000Z"}},
    message(3, "gemini", "I look.", thoughts=[THOUGHT], model="gemini-3-pro"),
    message(
        3, "gemini", "I look.", thoughts=[THOUGHT], model="gemini-3-pro", toolCalls=[CALL], tokens=TOKENS
    ),
    message(4, "gemini", "Line 3.", tokens=TOKENS),
    message(5, "info", "Update available"),
    message(6, "user", "a mistake"),
    {"$rewindTo": "m6"},
    message(7, "user", [{"text": "thanks"}]),
]


def chat(
    root: Path, lines: list[dict[str, Any]], name: str = "session-2026-01-20T11-00-0d5c0fd3.jsonl"
) -> Path:
    path = root / ".gemini" / "tmp" / "repo" / "chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parents[1] / ".project_root").write_text("/workspaces/repo\n")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(agh: Agh, *args: object) -> dict[str, Any]:
    (report,) = json.loads(agh("session", "import", *args, "-o", "json").stdout)["imports"]
    outcome: dict[str, Any] = report
    return outcome


@pytest.fixture
def gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "user"))
    return tmp_path / "user"


def test_a_chat_becomes_a_session(home: Home, agh: Agh, gemini: Path) -> None:
    chat(gemini, [*LINES, {"$set": {"summary": "The login test"}}])
    chat(gemini, [{**START, "kind": "subagent"}], f"{GEMINI}.jsonl")
    report = imported(agh, "--from", "gemini")
    assert report["status"] == "imported"
    directory = home.path / "sessions" / report["session_id"]
    meta = json.loads((directory / "meta.json").read_text())
    assert (meta["agent_name"], meta["acp_session_id"], meta["turns"]) == ("gemini", GEMINI, 2)
    assert (meta["workspace_path"], meta["title"]) == ("/workspaces/repo", "The login test")
    assert meta["imported"]["model"] == "gemini-3-pro"
    session = Session.at(directory)
    parts = [(part["role"], part.get("content"), part.get("thinking")) for part in messages(session)]
    assert parts == [
        ("user", "Why does the login fail?", None),
        ("assistant", "I look.", "Search\nfor the login"),
        ("tool_call", None, None),
        ("tool_result", None, None),
        ("assistant", "Line 3.", None),
        ("user", "thanks", None),
    ]
    with Reader(session) as reader:
        rows = list(reader.rows())
        usage = reader.fetch("SELECT turn_id, input_tokens, total_tokens FROM token_usage")
    assert usage == [("turn-000001", 200, 250)]
    (result,) = [row.parsed() for row in rows if row.type == "tool_result"]
    assert (result["tool_name"], result["tool_result"]) == ("search_file_content", {"content": "login.py:3"})
    assert [row.parsed()["title"] for row in rows if row.type == "system"] == ["note", "info"]
    assert imported(agh, "--from", "gemini")["status"] == "unchanged"


def test_an_old_chat_is_one_object(home: Home, agh: Agh, tmp_path: Path) -> None:
    path = chat(tmp_path, [], "session-2026-01-20T11-00-0d5c0fd3.json")
    whole = {**START, "messages": [message(1, "user", "hello"), message(2, "gemini", "hi")]}
    path.write_text(json.dumps(whole, indent=2))
    report = imported(agh, path)
    session = Session.at(home.path / "sessions" / report["session_id"])
    assert [part.get("content") for part in messages(session)] == ["hello", "hi"]


def test_a_chat_that_grows_is_appended_to(home: Home, agh: Agh, tmp_path: Path) -> None:
    path = chat(tmp_path, LINES[:7])
    report = imported(agh, path)
    assert report["status"] == "imported", report
    chat(tmp_path, LINES)
    assert imported(agh, path)["status"] == "grown"


@pytest.mark.parametrize(
    "broken",
    [
        message(3, "gemini", {"text": 7}, toolCalls="none", thoughts=[3], tokens=[]),
        message(3, "gemini", None, toolCalls=[{}, 4, {"status": "success", "result": {"x": 1}}]),
        message(3, "user", [[], None, 4]),
        {"$set": {"messages": [3, {"id": 4}]}},
        {"$rewindTo": "nothing"},
        {"id": 7},
        {"id": "x"},
    ],
)
def test_odd_lines_do_no_harm(home: Home, agh: Agh, tmp_path: Path, broken: dict[str, Any]) -> None:
    path = chat(tmp_path, [*LINES[:3], broken, message(8, "user", "hello")])
    path.write_text(path.read_text() + "{not json\n")
    report = imported(agh, path)
    assert report["status"] == "imported", report


def test_a_file_without_a_session_is_refused(home: Home, agh: Agh, tmp_path: Path) -> None:
    path = chat(tmp_path, LINES[1:])
    result = agh("session", "import", "--from", "gemini", path, code=2)
    assert "it has no Gemini CLI session id" in result.stderr
