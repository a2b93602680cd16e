"""`agh session stop`: the agent and everything below it ends, one event says how, the session stays."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.support.live import Live, Session
from tests.support.wait import PATIENCE, wait_until


def check_stopped(session: Session, reason: str) -> None:
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"], meta["failure"]) == ("stopped", reason, None)
    assert (meta["keeper"], meta["activity"], meta["attach"]) == (None, None, None)
    assert [event.content["stop_reason"] for event in session.events("session_stopped")] == [reason]
    assert session.events()[-1].type == "session_stopped"
    assert session.events()[-1].turn_id == ""
    assert not (session.directory / "keeper.sock").exists()
    below = [
        process for process in session.live.processes() if process.environ.get("AGH_SESSION_ID") == session.id
    ]
    assert below == [], "the agent was gone before the stop was reported"
    session.check_log()


def test_an_idle_session(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    result = session.agh("stop", "-o", "json")
    assert json.loads(result.stdout)["session"]["state"] == "stopped"
    check_stopped(session, "completed")
    assert not (session.directory / "events.db-wal").exists()


def test_stopping_what_is_stopped_is_no_error_and_writes_nothing(talked: Session) -> None:
    before = talked.meta()
    assert "stopped" in talked.agh("stop").stdout
    assert talked.meta() == before
    assert talked.count("session_stopped") == 1


def test_in_the_middle_of_a_turn(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/spawn-setsid 300\n/sleep 30") as watcher:
        session.wait_for_text("spawned")
        session.agh("stop")
        watcher.communicate(timeout=20)
    assert watcher.returncode != 0
    check_stopped(session, "user_canceled")
    assert [event.content["stop_reason"] for event in session.events("done", "error")] == ["cancelled"]


def test_while_a_permission_is_asked(live: Live) -> None:
    session = live.new()
    session.send("/ask path=a.txt May I?")
    wait_until(lambda: session.count("permission"))
    session.agh("stop")
    check_stopped(session, "user_canceled")
    assert session.fetch("SELECT status, decision FROM permissions") == [("decided", "cancelled")]


def test_agents_that_do_not_go_by_themselves(live: Live) -> None:
    """Side by side, since each takes its time."""
    idle = [live.new(*options) for options in (("--deaf",), ("--wrapper",), ("--wrapper", "--deaf"))]
    hanging = live.new("--wrapper")
    hanging.send("/say begun\n/hang")
    hanging.wait_for_text("begun")
    started = time.monotonic()
    stops = [live.start("session", "stop", session.id) for session in (*idle, hanging)]
    for one in stops[:-1]:
        assert one.wait(20) == 0
    assert time.monotonic() - started < 10
    assert stops[-1].wait(20) == 0
    for session in idle:
        check_stopped(session, "completed")
    check_stopped(hanging, "user_canceled")
    assert [event.type for event in hanging.events("done", "error")] == ["error"]


def test_many_stops_at_once_stop_it_once(live: Live) -> None:
    session = live.new()
    stops = [live.start("session", "stop", session.id) for _ in range(6)]
    for one in stops:
        _, err = one.communicate(timeout=30)
        assert (one.returncode, err) == (0, b"")
    check_stopped(session, "completed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_keeper_shuts_the_session_down(live: Live, number: signal.Signals) -> None:
    session = live.new()
    os.kill(session.keeper, number)
    check_stopped(session, "shutdown")


def test_an_idle_session_ends_its_agent_by_itself(live: Live) -> None:
    live.configure("[session]\nidle_after = '1s'")
    session = live.new()
    session.tell("hello")
    check_stopped(session, "idle")
    assert session.say("what did I say?") == 'SEEN 2 user texts: "hello" | "what did I say?"'


def test_a_turn_longer_than_that_is_not_idle(live: Live) -> None:
    live.configure("[session]\nidle_after = '1s'")
    session = live.new()
    assert session.tell("/sleep 2.2\n/say still here") == "still here"


def test_a_session_that_does_not_get_started(live: Live) -> None:
    """Its agent hangs in the handshake: a stop does not have to wait for that to time out."""
    starting = live.start("session", "new", "--agent", "echo", env={"AGH_ECHO_OPTIONS": "--init-hang"})
    (session,) = wait_until(live.sessions)
    wait_until(lambda: (session.directory / "meta.json").exists() and session.meta()["launch"])
    session.agh("stop", timeout=20)
    starting.communicate(timeout=20)
    assert starting.returncode not in (0, 70)
    wait_until(lambda: not live.processes())
    assert session.status()["state"] == "stopped"
    assert session.say("hello") == "echo: hello"


def test_whoever_starts_it_hears_that_it_was_stopped(talked: Session) -> None:
    starting = talked.live.start("session", "resume", talked.id, env={"AGH_ECHO_OPTIONS": "--init-hang"})
    wait_until(talked.is_live, what="a keeper that may not listen yet")
    talked.agh("stop")
    _, stderr = starting.communicate(timeout=PATIENCE)
    assert starting.returncode == 7
    assert f"session {talked.id} was stopped while it was starting" in stderr.decode()
