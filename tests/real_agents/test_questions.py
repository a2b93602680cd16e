"""Questions of a real agent: Claude's AskUserQuestion, answered by a command, and after a kill."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real_agents.standin import Standin
from tests.real_agents.steps import LIMIT, kill_keeper, start, stop
from tests.support.live import Live, Session
from tests.support.wait import wait_until

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]
MESSAGE = "Which colour shall the button have?"


def ask(session: Session, word: str) -> dict[str, Any]:
    """Send a prompt that makes the agent ask, and return its question."""
    session.prompt(f"{word} [ask colour]", "--detach", timeout=LIMIT)
    wait_until(lambda: session.status()["phase"] == "waiting_for_answer", LIMIT)
    (question,) = listed(session)
    return question


def listed(session: Session) -> list[dict[str, Any]]:
    questions: list[dict[str, Any]] = json.loads(session.agh("questions", "-o", "json").stdout)["questions"]
    return questions


def test_answered_from_another_terminal(live: Live, standin: Standin) -> None:
    session = start(live, "claude")
    question = ask(session, "alpha")
    assert (question["message"], question["status"]) == (MESSAGE, "pending")
    field = question["fields"][0]
    assert [choice["value"] for choice in field["choices"]] == ["Blue", "Red"]
    session.agh("answer", question["request_id"], f"{field['name']}=2")
    session.wait_idle(LIMIT)
    (result,) = (
        block
        for message in standin.conversation("alpha")[1].body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    )
    assert f'"{MESSAGE}"="Red"' in str(result["content"])
    session.check_log()
    stop(session)


def test_answered_after_the_keeper_was_killed(live: Live, standin: Standin) -> None:
    session = start(live, "claude")
    question = ask(session, "alpha")
    kill_keeper(session)
    assert [row["status"] for row in listed(session)] == ["orphaned"]
    process = session.agh("answer", f"{question['fields'][0]['name']}=Blue", timeout=LIMIT)
    assert "the question and your answer were sent as a prompt" in process.stderr
    session.wait_idle(LIMIT)
    (request, *_) = standin.conversation("My answer:")
    assert f"> {MESSAGE}" in request.prompt
    assert "- Colour: Blue" in request.prompt
    assert request.texts[0].startswith("alpha"), "it has its own memory"
    session.check_log()
    stop(session)
