"""`resume --agent OTHER`: a session goes from one agent to another, or stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agh.keeper.main import hand_over
from tests.sessions.test_restore import check_untouched
from tests.support.live import ECHO, Live, Session
from tests.support.processes import kill
from tests.support.resume import (
    HEADER,
    RECALL,
    SEEN,
    WORDS,
    define,
    edit_meta,
    refused,
    restored,
    wait_until_gone,
)
from tests.support.wait import wait_until


@pytest.fixture
def other(live: Live, talked: Session, tmp_path: Path) -> str:
    """Define a second agent, with a memory of its own."""
    define(live, "other", "--state", str(tmp_path / "other"))
    return "other"


def names(session: Session, after: int = 0) -> set[str]:
    """Return the agents that made the events."""
    return {name for (name,) in session.fetch("SELECT agent_name FROM events WHERE sequence > ?", after)}


def test_the_other_agent_is_told_the_history(talked: Session, other: str) -> None:
    edit_meta(talked, model="large", mode="code")
    before, last = talked.meta(), len(talked.events())
    restore = restored(talked, "", "--agent", other)
    assert (restore["strategy"], restore["context_lost"]) == ("inject_history", True)
    assert talked.markers() == ["context_reset"]
    meta = talked.meta()
    assert meta["agent_name"] == other
    assert meta["acp_session_ids"] == [before["acp_session_id"], meta["acp_session_id"]]
    assert (meta["model"], meta["mode"], meta["options"]) == (None, None, {})
    first = talked.say(f"/settings\n{RECALL}")
    assert "mode=ask model=small" in first
    assert f"[USER]: {WORDS}\n[ASSISTANT]: echo: {WORDS}\n" in first
    assert names(talked, last) == {other}
    rows = talked.agh("events").stdout.splitlines()
    assert [json.loads(row)["agent_name"] for row in rows][:last] == ["echo"] * last


def test_it_stays_with_the_other_agent(talked: Session, other: str) -> None:
    restored(talked, "", "--agent", other)
    talked.say("hello")
    talked.agh("stop")
    restore = restored(talked)
    assert (restore["strategy"], restore["context_lost"]) == ("native_resume", False)
    assert talked.meta()["agent_name"] == other
    reply = talked.say(RECALL)
    assert reply.startswith("SEEN 2 user texts: ")
    assert reply.count(HEADER) == 1


def test_and_back_again(talked: Session, other: str) -> None:
    restored(talked, "", "--agent", other)
    talked.say("hello other")
    talked.agh("stop")
    assert restored(talked, "", "--agent", "echo")["strategy"] == "inject_history"
    assert "[USER]: hello other" in talked.say(RECALL)
    assert len(talked.meta()["acp_session_ids"]) == 3
    assert names(talked) == {"echo", other}


def test_what_the_old_agent_offered_is_forgotten() -> None:
    """The new one need not say what it offers; it is not to be asked for what the old one did."""
    stored: Any = {"agent_name": "echo", "offers": {"models": {"availableModels": [{"modelId": "large"}]}}}
    hand_over(stored, "other")
    assert not stored["offers"]


def test_a_live_session_is_not_handed_over(talked: Session, other: str) -> None:
    restored(talked)
    agent, last = talked.agent, len(talked.events())
    error = talked.error("resume", "--agent", other, code=6)
    assert error["code"] == "session_live"
    assert "stop" in error["hint"]
    assert (talked.agent, len(talked.events())) == (agent, last)
    talked.agh("resume", "--agent", "echo")
    assert talked.agent == agent


def test_a_session_without_a_turn_has_nothing_to_tell(live: Live) -> None:
    define(live, "other")
    session = live.new()
    session.agh("stop")
    restore = restored(session, "", "--agent", "other")
    assert (restore["strategy"], restore["context_lost"]) == ("idle_boot", False)
    assert session.markers() == []


@pytest.mark.parametrize(
    ("fields", "code", "error", "words"),
    [
        ({"argv": ["no-such-agent"], "install": "get it from there"}, 9, "agent_not_installed", "get it"),
        (
            {"argv": [*ECHO, "--auth-required"], "login": "other login"},
            9,
            "agent_needs_login",
            "agh agent login other",
        ),
        ({"argv": [*ECHO, "--bogus"]}, None, None, ""),
        ({"argv": [*ECHO], "colour": "red"}, 2, "agent_invalid", "colour"),
        (None, 4, "agent_not_found", "other"),
    ],
    ids=["not installed", "not logged in", "dies at once", "broken file", "unknown"],
)
def test_a_hand_over_that_fails_changes_nothing(
    talked: Session, fields: dict[str, Any] | None, code: int | None, error: str | None, words: str
) -> None:
    if fields is not None:
        define(talked.live, "other", **fields)
    before, events = talked.meta(), talked.events()
    result = talked.agh("resume", "--agent", "other", "-o", "json", code=code)
    assert result.returncode in (1, 2, 4, 7, 9)
    said = json.loads(result.stderr.splitlines()[-1])["error"]
    assert error in (None, said["code"])
    assert words in json.dumps(said)
    wait_until_gone(talked)
    if talked.meta() != before:
        check_untouched(talked, before, events)
    restore = restored(talked)
    assert (restore["strategy"], restore["context_lost"]) == ("native_resume", False)
    assert talked.meta()["agent_name"] == "echo"
    assert talked.say(RECALL) == SEEN


def test_required_context_refuses_a_hand_over(talked: Session, other: str) -> None:
    before, events = talked.meta(), talked.events()
    assert refused(talked, "", "--agent", other, "--require-context")["code"] == "context_lost"
    check_untouched(talked, before, events)


def test_a_hand_over_that_is_killed_changes_nothing(talked: Session) -> None:
    talked.live.configure('[timeouts]\ninitialize = "2s"\n')
    define(talked.live, "other", "--init-hang")
    starting = talked.live.start("session", "resume", talked.id, "--agent", "other")
    wait_until(lambda: any("--init-hang" in process.argv for process in talked.live.processes()))
    talked.live.cookies.add(talked.meta()["launch"]["cookie"])
    kill(talked.meta()["keeper"]["pid"])
    assert starting.wait(20) != 0
    wait_until_gone(talked)
    restore = restored(talked)
    assert (restore["strategy"], restore["context_lost"]) == ("native_resume", False)
    assert talked.meta()["agent_name"] == "echo"
    assert talked.say(RECALL) == SEEN


def test_a_hand_over_says_what_was_done_and_not_that_something_was_lost(talked: Session, other: str) -> None:
    result = talked.agh("resume", "--agent", other)
    assert (
        result.stderr == "handed over from echo to other; the agent gets the history with the next prompt\n"
    )
    (marker,) = talked.events("transcript_marker.created")
    assert (marker.content["kind"], marker.content["severity"]) == ("context_reset", "info")
    assert marker.content["summary"] == "handed over from echo to other; resumed with inject_history"


def test_a_fresh_start_says_what_was_done(talked: Session) -> None:
    result = talked.agh("resume", "--fresh")
    assert (
        result.stderr
        == "restarted without its memory, as you asked; the agent gets the history with the next prompt\n"
    )


def test_an_agent_that_forgot_after_a_hand_over_has_forgotten(talked: Session, other: str) -> None:
    talked.agh("resume", "--agent", other)
    talked.say("hello")
    talked.agh("stop")
    result = talked.agh("resume", env={"AGH_ECHO_OPTIONS": "--on-resume not-found"})
    assert result.stderr.startswith("warning: the agent lost its memory of this session (")
