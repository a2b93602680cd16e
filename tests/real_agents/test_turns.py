"""Turns of real agents: cancelled, failed, and waiting for a permission."""

from __future__ import annotations

import json

import pytest

from tests.real_agents.standin import REFUSAL, Standin
from tests.real_agents.steps import LIMIT, SLOW, begin_slow, kill_keeper, say, start, stop, the_request
from tests.support.live import Live, Session
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.real_agents,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("agent", ["opencode", "codex", "qwen"]),
]


def ask_to_write(session: Session, word: str, name: str) -> str:
    """Send a prompt whose tool call waits for a permission; return the id of its turn."""
    path = session.live.workspace / name
    turn_id = session.prompt(f"{word} [write {path} written]", "--detach", timeout=LIMIT).stdout.strip()
    wait_until(lambda: session.status()["phase"] == "waiting_for_permission", LIMIT)
    return turn_id


def end_of(session: Session, turn_id: str) -> str:
    """Return how a turn ended, once it has."""
    wait_until(lambda: session.events("done", "error", turn=turn_id), LIMIT)
    (end,) = session.events("done", "error", turn=turn_id)
    return str(end.content["stop_reason"])


def test_cancel(live: Live, standin: Standin, agent: str) -> None:
    session = start(live, agent)
    turn_id = begin_slow(session, "alpha")
    pid = session.agent
    session.agh("cancel")
    assert end_of(session, turn_id) == "cancelled"
    if agent != "codex":  # which notices only with the model's next words
        wait_until(lambda: the_request(standin, "alpha").state == "cut off", what="the agent hangs up")
    assert session.agent == pid
    assert say(session, "beta").startswith("SEEN 2 user texts")
    assert the_request(standin, "beta").texts == [f"alpha {SLOW}", "beta"]
    session.check_log()
    stop(session)


def test_the_model_refuses(live: Live, standin: Standin, agent: str) -> None:
    session = start(live, agent)
    result = session.prompt("alpha [fail 400]", code=1, timeout=LIMIT)
    assert REFUSAL in result.stderr
    (error,) = session.events("error")
    assert REFUSAL in error.content["error"]
    assert session.status()["badge"] == "idle"
    assert say(session, "beta").startswith("SEEN")
    session.check_log()
    stop(session)


def test_a_permission(live: Live, standin: Standin, agent: str) -> None:
    session = start(live, agent)
    turn_id = ask_to_write(session, "alpha", "denied.txt")
    session.agh("deny")
    assert end_of(session, turn_id) == ("cancelled" if agent == "codex" else "end_turn")
    turn_id = ask_to_write(session, "beta", "allowed.txt")
    session.agh("approve")
    assert end_of(session, turn_id) == "end_turn"
    assert {path.name: path.read_text() for path in live.workspace.iterdir()} == {"allowed.txt": "written"}
    assert "DONE after 1 tool results" in session.text(turn_id)
    decisions = session.fetch("SELECT decision FROM permissions WHERE decided_by = 'user'")
    assert [decision for (decision,) in decisions] == ["denied", "allowed"]
    session.check_log()
    stop(session)


def test_a_keeper_killed_while_a_permission_waits(live: Live, standin: Standin, agent: str) -> None:
    """The tool has not run, the request is closed, and the conversation goes on."""
    session = start(live, agent)
    turn_id = ask_to_write(session, "alpha", "never.txt")
    kill_keeper(session)
    assert say(session, "beta").startswith("SEEN 2 user texts")
    assert end_of(session, turn_id) == "interrupted"
    assert session.fetch("SELECT status FROM permissions") == [("expired",)]
    assert json.loads(session.agh("permissions", "-o", "json").stdout)["permissions"] == []
    assert list(live.workspace.iterdir()) == []
    session.check_log()
    stop(session)


def test_tokens(live: Live, standin: Standin, agent: str) -> None:
    """However an agent tells them: in its answer, in updates, or in `_meta` of a chunk."""
    session = start(live, agent)
    say(session, "alpha")
    wait_until(lambda: session.fetch("SELECT turn_id FROM token_usage"), what="it tells what it used")
    ((total, context),) = session.fetch("SELECT total_tokens, context_used FROM token_usage")
    expected = {"opencode": (12, 7), "codex": (None, 12), "qwen": (12, None)}
    assert (total, context) == expected[agent]
    stop(session)


def test_a_model_that_is_overloaded(live: Live, standin: Standin, agent: str) -> None:
    if agent != "codex":
        pytest.skip("it tries again by itself, for minutes")
    live.configure("[session]\nretry_delay = '0.1s'")
    session = start(live, agent)
    result = session.prompt("alpha [fail 503]", "--retries", "1", code=1, timeout=LIMIT)
    assert "503 Service Unavailable" in result.stderr
    (marker,) = session.events("transcript_marker.created")
    assert (marker.content["kind"], marker.content["attempt"]) == ("provider_failure", 1)
    assert "503 Service Unavailable" in marker.content["diagnostic"]
    stop(session)
