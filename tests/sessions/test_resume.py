"""`agh session resume`: make it live, in the same conversation, never with a second agent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.processes import kill
from tests.support.wait import wait_until


def resumed(session: Session, *args: object, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(session.agh("resume", *args, "-o", "json", **options).stdout)
    return document


def test_a_stopped_session_goes_on_where_it_was(talked: Session) -> None:
    token = talked.meta()["acp_session_id"]
    process = resumed(talked)
    assert process["session"]["id"] == talked.id
    assert (process["session"]["state"], process["session"]["badge"]) == ("active", "idle")
    assert process["restore"]["strategy"] == "native_resume"
    assert process["restore"]["context_lost"] is False
    assert process["attach"]["attached_to"]
    (event,) = talked.events("session_resumed")
    assert event.turn_id == ""
    assert event.content["strategy"] == "native_resume"
    assert event.content["acp_session_id"] == event.content["previous_acp_session_id"] == token
    assert talked.meta()["restore"]["strategy"] == "native_resume"
    assert talked.tell("what did I say?") == 'SEEN 2 user texts: "remember me" | "what did I say?"'
    assert talked.markers() == []
    talked.check_log()


def test_the_strategy_is_said_to_people(talked: Session) -> None:
    result = talked.agh("resume")
    assert result.stdout == f"{talked.id}  idle\n"
    assert "native_resume" in result.stderr


def test_a_live_session_is_only_attached_to(live: Live) -> None:
    session = live.new()
    before = session.hello()
    assert resumed(session)["restore"] is None
    assert session.hello()["agent_pid"] == before["agent_pid"]
    assert session.count("session_resumed") == 0
    assert session.count("session_attached") == 1


def test_attach_only_never_restarts(live: Live) -> None:
    session = live.new()
    resumed(session, "--attach-only")
    session.stop()
    before = session.events()
    assert session.error("resume", "--attach-only", code=6)["code"] == "session_not_attachable"
    assert not session.is_live()
    assert session.events() == before


def test_the_newest_is_resumed(live: Live, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    older, newer = (live.new(args=("--workspace", place)) for place in (live.workspace, other))
    for session in (older, newer):
        session.stop()
    document = json.loads(live.agh("session", "resume", "--latest", "-o", "json").stdout)
    assert document["session"]["id"] == newer.id
    document = json.loads(live.agh("session", "resume", "--latest", "--workspace", ".", "-o", "json").stdout)
    assert document["session"]["id"] == older.id


def test_nothing_to_resume_is_no_error(live: Live) -> None:
    result = live.agh("session", "resume", "--latest", "-o", "json")
    assert json.loads(result.stdout) == {"resumed": None, "reason": "no_eligible_sessions"}
    assert live.agh("session", "resume", "--latest").stdout
    live.agh("session", "resume", code=2)
    live.agh("session", "resume", "@last", "--latest", code=2)
    live.agh("session", "resume", "nobody", code=4)


def test_fresh_drops_the_agents_session_and_says_so(talked: Session) -> None:
    token = talked.meta()["acp_session_id"]
    process = resumed(talked, "--fresh")
    assert process["restore"]["strategy"] == "inject_history"
    meta = talked.meta()
    assert meta["acp_session_id"] != token
    assert meta["acp_session_ids"] == [token, meta["acp_session_id"]]
    reply = talked.tell("what did I say?")
    assert reply.startswith("SEEN 1 user texts")
    assert "RESUME CONTEXT FOR CONTINUING TASK" in reply
    assert "remember me" in reply


LADDER = [
    # the agent's options at the resume, the strategy that holds, whether the context was lost
    ("--caps load", "native_load", False),
    ("--caps none", "inject_history", True),
    ("--on-resume not-found", "inject_history", True),
]


@pytest.mark.parametrize(("options", "strategy", "lost"), LADDER)
def test_the_ladder(talked: Session, options: str, strategy: str, lost: bool) -> None:
    before = talked.count("user_message", "agent_message")
    result = talked.agh("resume", "-o", "json", env={"AGH_ECHO_OPTIONS": options})
    restore = json.loads(result.stdout)["restore"]
    assert (restore["strategy"], restore["context_lost"]) == (strategy, lost)
    assert talked.events("session_resumed")[0].content["strategy"] == strategy
    assert talked.markers() == (["context_reset"] if lost else [])
    assert ("lost its memory" in result.stderr) is lost
    assert talked.count("user_message", "agent_message") == before, "a replay is not stored again"
    reply = talked.tell("what did I say?")
    assert "remember me" in reply
    assert reply.startswith("SEEN 1" if lost else "SEEN 2")
    if lost:
        assert talked.tell("what did I say?").count("RESUME CONTEXT") == 1, "injected once"


@pytest.mark.parametrize("outcome", ["error", "die"])
def test_any_other_failure_changes_nothing(talked: Session, outcome: str) -> None:
    token = talked.meta()["acp_session_id"]
    error = talked.error("resume", code=1, env={"AGH_ECHO_OPTIONS": f"--on-resume {outcome}"})
    assert "--fresh" in error["hint"]
    wait_until(lambda: not talked.is_live())
    meta = talked.meta()
    assert (meta["state"], meta["acp_session_id"]) == ("stopped", token)
    assert meta["failure"]["kind"] in ("load_session_failure", "startup_failure")
    assert talked.count("session_resumed") == 0
    assert talked.markers() == []
    assert resumed(talked)["restore"]["strategy"] == "native_resume"
    assert "remember me" in talked.tell("what did I say?")


def test_a_load_that_never_ends_is_given_up(talked: Session) -> None:
    talked.live.configure("[timeouts]\nload = '1s'")
    token = talked.meta()["acp_session_id"]
    result = talked.agh("resume", code=1, env={"AGH_ECHO_OPTIONS": "--on-resume hang"})
    assert "1 s" in result.stderr
    wait_until(lambda: not talked.live.processes())
    assert talked.meta()["acp_session_id"] == token


def test_required_context_that_is_gone_refuses_and_starts_nothing(talked: Session) -> None:
    token = talked.meta()["acp_session_id"]
    gone = {"AGH_ECHO_OPTIONS": "--on-resume not-found"}
    assert talked.error("resume", "--require-context", code=1, env=gone)["code"] == "context_lost"
    assert token in talked.meta()["acp_session_ids"]
    assert talked.meta()["state"] == "stopped"
    assert talked.count("session_resumed") == 0
    assert resumed(talked, "--require-context")["restore"]["strategy"] == "native_resume"


def test_a_session_that_was_never_prompted_starts_again(live: Live) -> None:
    session = live.new("--caps", "none")
    session.stop()
    process = resumed(session, "--require-context")
    assert process["restore"]["strategy"] == "idle_boot"
    assert process["restore"]["context_lost"] is False
    assert session.markers() == []


def test_a_workspace_that_is_gone_is_refused(live: Live, tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    session = live.new(args=("--workspace", place))
    session.stop()
    shutil.rmtree(place)
    assert str(place) in session.agh("resume", code=4).stderr
    place.mkdir()
    resumed(session)


def test_a_log_that_is_gone_is_refused(talked: Session) -> None:
    log = talked.directory / "events.db"
    whole = log.read_bytes()
    log.unlink()
    assert talked.error("resume", code=8)["code"] == "events_missing"
    log.write_bytes(b"")
    assert talked.error("resume", code=8)["code"] == "events_empty"
    log.write_bytes(whole)
    resumed(talked)


def test_an_agent_that_is_gone_is_refused(talked: Session) -> None:
    result = talked.agh("resume", code=None, env={"AGH_PLUGINS": ""})
    assert result.returncode in (4, 9)
    assert "echo" in result.stderr
    resumed(talked)


def test_prompting_a_stopped_session_resumes_it_first(talked: Session) -> None:
    result = talked.prompt("what did I say?", "-o", "text")
    assert result.stdout.startswith("SEEN 2 user texts")
    assert "native_resume" in result.stderr
    assert talked.count("session_resumed") == 1


def test_a_resume_while_it_stops_waits_for_the_end(live: Live) -> None:
    session = live.new("--deaf")
    agent = session.agent
    stopping = live.start("session", "stop", session.id)
    wait_until(lambda: session.meta()["state"] == "stopping")
    resuming = live.start("session", "resume", session.id, "-o", "json")
    live.waits(resuming)
    kill(agent)
    assert json.loads(resuming.communicate(timeout=30)[0])["session"]["state"] == "active"
    assert stopping.wait(30) == 0
    assert session.count("session_resumed") == 1
    session.kill_keeper()  # to stop a deaf agent would take all the graces
