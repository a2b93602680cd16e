"""`agh session ensure --name N`: the session of that name, made once, however often it is called."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from tests.support.live import ECHO, Live
from tests.support.wait import wait_until


def ensure(live: Live, *args: object, code: int = 0, **options: Any) -> dict[str, Any]:
    result = live.agh("session", "ensure", *args, "-o", "json", code=code, **options)
    document: dict[str, Any] = json.loads(result.stdout or result.stderr.splitlines()[-1])
    return document


def test_made_once_and_then_found(live: Live) -> None:
    receipt = ensure(live, "--name", "nightly", "--agent", "echo", "--model", "large")
    assert (receipt["created"], receipt["session"]["name"], receipt["session"]["model"]) == (
        True,
        "nightly",
        "large",
    )
    session = live.session(receipt["session"]["id"])
    agent = session.agent
    again = ensure(live, "--name", "nightly", "--agent", "echo")
    assert (again["created"], again["session"]["id"]) == (False, session.id)
    assert session.agent == agent
    session.stop()
    assert live.agh("session", "ensure", "--name", "nightly").stdout == f"{session.id}\n"
    assert not session.is_live(), "the next prompt starts it"
    (live.workspace / "sub").mkdir()
    assert ensure(live, "--name", "nightly", cwd=live.workspace / "sub")["session"]["id"] == session.id


def test_twenty_at_once_make_one(live: Live) -> None:
    racers = [
        live.start("session", "ensure", "--name", "one", "--agent", "echo", "-o", "json") for _ in range(20)
    ]
    outcomes = [(racer.communicate(timeout=60), racer.returncode) for racer in racers]
    assert {code for _, code in outcomes} == {0}, outcomes
    documents = [json.loads(out) for (out, _), _ in outcomes]
    assert len({document["session"]["id"] for document in documents}) == 1
    assert sum(document["created"] for document in documents) == 1
    assert {document["session"]["state"] for document in documents} == {"active"}, (
        "nobody is told of it before it is there"
    )
    (session,) = live.sessions()
    assert session.tell("hello") == "echo: hello"


def test_a_name_with_another_agent_is_no_match(live: Live, tmp_path: Path) -> None:
    session = live.new(args=("--name", "mine"))
    error = ensure(live, "--name", "mine", "--agent", "codex", code=6)["error"]
    assert (error["code"], error["hint"]) == ("name_mismatch", "agh session resume mine --agent codex")
    assert [each.id for each in live.sessions()] == [session.id]


def test_every_workspace_has_its_own(live: Live, tmp_path: Path) -> None:
    session = live.new(args=("--name", "mine"))
    other = tmp_path / "elsewhere"
    other.mkdir()
    receipt = ensure(live, "--name", "mine", "--agent", "echo", cwd=other)
    assert receipt["created"] and receipt["session"]["id"] != session.id
    found = ensure(live, "--name", "mine", "--workspace", live.workspace, cwd=other)
    assert (found["created"], found["session"]["id"]) == (False, session.id)


def test_an_archived_session_is_not_meant(live: Live) -> None:
    first = live.new(args=("--name", "mine"))
    first.stop()
    first.agh("archive")
    assert ensure(live, "--name", "mine", "--agent", "echo")["created"] is True


def test_one_that_never_came_up_is_tried_again(live: Live, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    ensure(live, "--name", "late", "--command", agent, code=9)
    (session,) = live.sessions()
    wait_until(lambda: not session.is_live())
    ensure(live, "--name", "late", code=9)
    agent.write_text(f"#!/bin/sh\nexec {shlex.join(ECHO)}\n")
    agent.chmod(0o700)
    found = ensure(live, "--name", "late")
    assert (found["created"], found["session"]["id"]) == (False, session.id)
    assert session.is_live()


def test_what_cannot_be_a_name_leaves_nothing(live: Live) -> None:
    ensure(live, "--name", "@last", code=2)
    live.agh("session", "ensure", code=2)
    ensure(live, "--name", "x", "--agent", "echo", "--model", "none", code=2)
    assert live.sessions() == []
