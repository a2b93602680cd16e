from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home, conversation, marker, says, take_lock, user
from tests.support.output import message_of
from tests.support.program import Agh

AT = "2026-05-20T13:58:00.000Z"


def recap(agh: Agh, *args: object, **kwargs: Any) -> dict[str, Any]:
    document = json.loads(agh("session", "recap", *args, "-o", "json", **kwargs).stdout)
    assert list(document) == ["recap"]
    inner: dict[str, Any] = document["recap"]
    return inner


def talk(count: int) -> list[Any]:
    return [user(f"question {n}", turn=f"turn-{n}") for n in range(count)]


def test_its_shape(agh: Agh, home: Home) -> None:
    directory = home.session(conversation())
    summary = recap(agh, directory.name, "--at", AT)
    assert list(summary) == [
        "session",
        "recent_markers",
        "recent_messages",
        "pending_markers",
        "pending_inputs",
        "pending_permissions",
        "pending_questions",
        "omitted",
        "snapshot",
    ]
    assert summary["session"] == {"id": directory.name, "badge": "stopped", "state": "stopped"}
    assert [marker["kind"] for marker in summary["recent_markers"]] == ["context_reset"]
    assert [message["role"] for message in summary["recent_messages"]] == [
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "assistant",
    ]
    assert summary["omitted"] == {"messages": 0, "markers": 0}
    assert summary["snapshot"] == {
        "generated_at": AT,
        "event_cursor": 10,
        "transcript_cursor": 10,
        "queue_generation": 0,
        "consistency": "persisted_reads",
    }


def test_the_same_rows_give_the_same_bytes(agh: Agh, home: Home) -> None:
    name = home.session(conversation()).name
    first, second = (
        agh("session", "recap", name, "-o", "json", "--at", AT, env=None, text=False).stdout for _ in range(2)
    )
    assert first == second


def test_the_time_is_now_unless_it_is_given(agh: Agh, home: Home) -> None:
    name = home.session(conversation()).name
    assert recap(agh, name)["snapshot"]["generated_at"] > "2026-05"
    assert recap(agh, name, "--at", "2026-05-20T15:58:00+02:00")["snapshot"]["generated_at"] == AT
    message_of(agh("session", "recap", name, "--at", "noon", code=2))


@pytest.mark.parametrize(("limit", "shown"), [(None, 20), (1, 1), (100, 100)])
def test_a_limit_and_what_it_leaves_out(agh: Agh, home: Home, limit: int | None, shown: int) -> None:
    notes = [marker("context_reset", f"note {n}") for n in range(30)]
    name = home.session([*talk(150), *notes]).name
    summary = recap(agh, name, *(() if limit is None else ("--limit", limit)))
    assert [message["content"] for message in summary["recent_messages"]] == [
        f"question {n}" for n in range(150 - shown, 150)
    ]
    assert summary["omitted"] == {"messages": 150 - shown, "markers": 30 - min(shown, 30)}
    human = agh("session", "recap", name, *(() if limit is None else ("--limit", limit))).stdout
    assert f"… {150 - shown} earlier messages" in human
    assert "question 149" in human


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x"])
def test_limits_that_are_refused(agh: Agh, home: Home, limit: str) -> None:
    message_of(agh("session", "recap", home.session().name, "--limit", limit, code=2))


def test_what_waits_is_counted(agh: Agh, home: Home) -> None:
    directory = home.session(
        [user("x"), marker("prompt_queued", "queued"), marker("mcp_auth_required", "log in")]
    )
    fill(directory)
    summary = recap(agh, directory.name)
    assert (summary["pending_inputs"], summary["pending_permissions"], summary["pending_markers"]) == (
        2,
        1,
        1,  # a stopped session needs no login
    )
    assert summary["snapshot"]["queue_generation"] == 3
    human = agh("session", "recap", directory.name).stdout
    assert "waiting: 2 queued prompts, 1 permission requests" in human


def fill(directory: Path) -> None:
    """Add two queued prompts and one that was sent, a pending request and an answered one."""
    with take_lock(directory), sqlite3.connect(directory / "events.db") as log:
        log.executemany(
            "INSERT INTO inputs (generation, mode, status, prompt, turn_id, created_at, updated_at) "
            "VALUES (3, 'queue', ?, 'p', 't', '', '')",
            [("queued",), ("queued",), ("sent",)],
        )
        log.executemany(
            "INSERT INTO permissions (request_id, turn_id, status, action, request, created_at) "
            "VALUES (?, 't', ?, 'write', '{}', '')",
            [("r1", "pending"), ("r2", "decided")],
        )
    log.close()


SECRET = "hunter2-Zq8xW5vT9r"
TOKEN = "ghp_" + "a1B2c3D4e5" * 4


@pytest.mark.parametrize("output", ["human", "json"])
def test_secrets_do_not_leave(agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.setenv("DEPLOY_PASSWORD", SECRET)
    name = home.session(
        [
            user(f"use {SECRET} please"),
            says(f"the token is {TOKEN[:20]}"),
            says(f"{TOKEN[20:]} as you said"),
            marker(
                "provider_failure",
                f"refused {TOKEN}",
                diagnostic={"header": f"Authorization: Bearer {TOKEN}"},
            ),
        ]
    ).name
    text = agh("session", "recap", name, "-o", output).stdout
    assert "please" in text and "as you said" in text
    for hidden in (SECRET, TOKEN, TOKEN[:20], TOKEN[20:]):
        assert hidden not in text


def test_an_empty_session(agh: Agh, home: Home) -> None:
    summary = recap(agh, home.session().name)
    assert (summary["recent_messages"], summary["recent_markers"]) == ([], [])
    assert summary["snapshot"]["event_cursor"] == 0


def test_for_people(agh: Agh, home: Home) -> None:
    directory = home.session(conversation(), state="active", stop_reason=None)
    lines = agh("session", "recap", directory.name).stdout.splitlines()
    assert lines[0] == f"{directory.name}  failed"
    assert lines[1] == "user: Explain the stop path."
    assert lines[-1].endswith("context_reset: the agent forgot")
