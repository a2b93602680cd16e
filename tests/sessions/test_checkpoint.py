"""The checkpoint of a session that pauses: one file, refused when it is damaged, made again from the log."""

from __future__ import annotations

import pytest

from agh.core.events import timestamp
from tests.support.checkpoint import DAMAGED, checkpoint_of, flip
from tests.support.live import Live
from tests.support.resume import HEADER, RECALL, restored
from tests.support.wait import wait_until

MISSING = 4


def test_the_checkpoint_of_any_session(live: Live) -> None:
    session = live.new()
    assert session.error("checkpoint", code=MISSING)["code"] == "checkpoint_missing"
    session.tell("/usage 10 5 0.4\n/say hello")
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.send("/say waited")
    session.agh("pause")
    path = session.directory / "checkpoint.json"
    checkpoint, before = checkpoint_of(session), path.read_bytes()
    assert oct(path.stat().st_mode)[-3:] == "600"
    assert checkpoint["constraint_state"]["budget_spent"] == pytest.approx(0.4)  # type: ignore[index]
    assert checkpoint["rounds_completed"] == 2
    assert checkpoint["pending_delegations"] == [
        {"target": "echo", "message": "/say waited", "round": 3, "status": "queued"}
    ]
    (agent,) = checkpoint["active_agents"]  # type: ignore[misc,attr-defined]
    assert (agent["agent_id"], agent["depth"], agent["acp_session_id"]) == (
        "echo",
        0,
        session.meta()["acp_session_id"],
    )
    assert "hello" in [
        message["content"] for message in agent["conversation_tail"] if message["role"] == "assistant"
    ]
    paused = session.events("session_paused")[-1].content
    assert (
        paused["checkpoint"] == checkpoint["created_at"]
        and checkpoint["last_sequence"] == session.events()[-1].sequence - 1
    )
    assert checkpoint_of(session, "--rebuild") == checkpoint and path.read_bytes() == before, (
        "the log gives the same bytes"
    )
    flip(path, 4321)
    error = session.error("checkpoint", code=DAMAGED)
    assert (
        error["code"] == "checkpoint_damaged"
        and error["hint"] == f"agh session checkpoint {session.id} --rebuild"
    )
    assert checkpoint_of(session, "--rebuild") == checkpoint
    session.agh("resume")
    session.wait_for_text("waited")
    assert session.error("checkpoint", "--rebuild", code=6)["code"] == "session_live"
    session.agh("pause")
    assert checkpoint_of(session)["rounds_completed"] == 3
    assert [path.name for path in session.directory.glob("*checkpoint*")] == ["checkpoint.json"], "only one"
    assert "rounds:   3" in session.agh("checkpoint").stdout


def test_a_session_that_was_killed_can_have_one(live: Live) -> None:
    session = live.new()
    session.tell("/say hello")
    session.kill_keeper()
    checkpoint = checkpoint_of(session, "--rebuild")
    assert checkpoint["rounds_completed"] == 1
    assert live.agh("session", "checkpoint", "sess-doesnotexist", code=4)


def test_the_tail_is_as_deep_as_configured(live: Live) -> None:
    live.configure("[session]\ntranscript_replay_depth = 1")
    session = live.new()
    session.tell("/say one")
    session.agh("pause")
    (agent,) = checkpoint_of(session)["active_agents"]  # type: ignore[misc,attr-defined]
    assert [message["content"] for message in agent["conversation_tail"]] == ["one"]


def test_it_was_made_when_the_session_was_paused(live: Live) -> None:
    session = live.new()
    session.tell("/say one")
    asked = timestamp()
    session.agh("pause")
    (paused,) = session.events("session_paused")
    made = checkpoint_of(session)["created_at"]
    assert asked <= str(made) == paused.content["timestamp"] == paused.content["checkpoint"]
    assert checkpoint_of(session, "--rebuild")["created_at"] == made


def test_a_paused_session_gets_its_tail_if_the_agent_has_forgotten_it(live: Live) -> None:
    live.configure("[session]\ntranscript_replay_depth = 2")
    session = live.new()
    session.tell("/say long ago")
    session.tell("/say just now")
    session.agh("pause")
    live.configure("[session]\ntranscript_replay_depth = 50")
    assert restored(session, "--on-resume not-found")["strategy"] == "inject_history"
    seen = session.say(RECALL)
    assert 'SEEN 1 user texts: "## Session Context (Resumed)\n' in seen
    assert "This session was paused and has now resumed." in seen
    assert "[USER]: /say just now\n[ASSISTANT]: just now" in seen
    assert "long ago" not in seen, "the tail is as deep as the checkpoint says"
    assert HEADER not in seen
    assert session.say(RECALL).count("## Session Context") == 1


def test_a_paused_session_is_restored_by_its_agent_where_that_is_possible(live: Live) -> None:
    session = live.new()
    session.tell("/say one")
    session.agh("pause")
    assert restored(session)["strategy"] == "native_resume"
    assert "## Session Context" not in session.say(RECALL)


@pytest.mark.parametrize("verb", [("resume",), ("prompt", "hello")])
def test_a_damaged_checkpoint_is_refused(live: Live, verb: tuple[str, ...]) -> None:
    session = live.new()
    session.tell("/say one")
    session.agh("pause")
    flip(session.directory / "checkpoint.json", 1234)
    before = session.events()
    error = session.error(*verb, code=DAMAGED)
    assert error["code"] == "checkpoint_damaged"
    assert error["hint"] == f"agh session checkpoint {session.id} --rebuild"
    wait_until(lambda: not session.is_live(), what="no keeper was given the lock")
    assert session.events() == before
    session.agh("checkpoint", "--rebuild")
    session.agh(*verb)
    flip(session.directory / "checkpoint.json", 1234)
    session.stop()
    session.agh("resume")  # it was stopped, not paused: the checkpoint is an old one


def test_a_session_pauses_though_its_configuration_is_broken_by_now(live: Live) -> None:
    session = live.new(args=("--max-turns", "1"))
    live.configure("nonsense = [")
    session.send("last")
    wait_until(lambda: session.meta()["state"] == "stopped")
    assert session.events()[-1].type == "session_paused"
    assert (session.directory / "checkpoint.json").exists()
