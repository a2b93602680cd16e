"""kill -9 of a keeper, and of a command that watches: nothing outlives it, nothing is lost, it goes on."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.live import GONE_WITHIN, Live, Session
from tests.support.processes import carrying, is_alive, kill
from tests.support.wait import wait_until


def kill_in_mid_turn(session: Session, text: str) -> float:
    """SIGKILL to the keeper while the agent works; seconds until everything below was gone."""
    cookie = session.cookie
    started = time.monotonic()
    session.kill_keeper()
    wait_until(lambda: not carrying(cookie), what=text)
    return time.monotonic() - started


@pytest.mark.parametrize("options", [(), ("--wrapper", "--deaf")])
def test_everything_below_is_gone_in_no_time(live: Live, options: tuple[str, ...]) -> None:
    session = live.new(*options)
    session.send("/spawn-setsid 300\n/spawn-setsid 300 keep-stdout\n/sleep 300")
    wait_until(lambda: session.text().count("spawned") == 2)
    wait_until(lambda: len(carrying(session.cookie)) >= 4 + ("--wrapper" in options))
    took = kill_in_mid_turn(session, "the tree")
    print(f"gone after {took * 1000:.0f} ms")
    assert took < GONE_WITHIN


def test_a_command_started_for_the_agent_is_gone_too(live: Live) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    session.send("/run setsid sleep 300 & sleep 300")
    wait_until(
        lambda: len([process for process in live.processes() if process.argv == ["sleep", "300"]]) == 2
    )
    session.kill_keeper()
    wait_until(lambda: not live.processes(), GONE_WITHIN)


def test_who_watches_is_told_and_keeps_what_was_shown(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/say begun\n/sleep 30", "-o", "text") as watcher:
        session.wait_for_text("begun")
        session.kill_keeper()
        out, err = watcher.communicate(timeout=20)
    assert watcher.returncode == 7
    assert out == b"begun\n"
    assert f"agh session queue retry {session.id} 1" in err.decode()


def test_resume_closes_the_open_turn_and_goes_on(live: Live) -> None:
    session = live.new()
    turn = session.send("/say begun\n/tool-open Build id=c1\n/sleep 30")
    wait_until(lambda: session.count("tool_call") == 2)
    events = session.events()
    session.kill_keeper()
    assert session.events() == events, "reading never repairs"
    session.agh("resume")
    after = session.events()
    assert after[: len(events)] == events
    assert session.status()["badge"] == "idle"
    (result,) = session.events("tool_result")
    assert (result.turn_id, result.content["tool_call_id"]) == (turn, "c1")
    assert (result.content["tool_error"], result.content["outcome"]) == (True, "unknown")
    (error,) = session.events("error")
    assert (error.turn_id, error.content["stop_reason"]) == (turn, "interrupted")
    assert session.inputs()[0][0] == "interrupted"
    assert "prompt_interrupted" in session.markers()
    assert session.count("session_resumed") == 1
    reply = session.tell("what did I say?")
    assert reply.startswith("SEEN 2 user texts"), "the killed prompt was not sent again"
    assert "/tool-open" in reply
    session.check_log()


def test_a_prompt_just_works_and_the_agent_remembers(live: Live) -> None:
    session = live.new()
    session.tell("the first thing")
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.kill_keeper()
    reply = session.say("what did I say?")
    assert reply.startswith("SEEN 3 user texts")
    assert "the first thing" in reply
    session.check_log()


def test_repair_closes_the_turn_without_an_agent(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.kill_keeper()
    report = json.loads(session.agh("repair", "-o", "json").stdout)
    assert report["persisted"] is True
    assert {action["code"] for action in report["actions"]} >= {
        "append_error",
        "fix_metadata",
        "interrupt_input",
    }
    assert not session.is_live()
    assert json.loads(session.agh("repair", "-o", "json").stdout)["actions"] == []
    assert session.say("what did I say?").startswith("SEEN 2")
    assert session.count("error") == 1


def test_killed_before_the_first_turn_ended_and_without_a_memory(live: Live) -> None:
    """The agent cannot restore by itself; what was said in the killed turn must not be lost silently."""
    session = live.new("--caps", "none")
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.kill_keeper()
    result = session.agh("resume", "-o", "json")
    assert json.loads(result.stdout)["restore"]["strategy"] == "inject_history"
    assert "context_reset" in session.markers()
    assert "/say begun" in session.tell("what did I say?")


def test_killed_again_and_again(live: Live) -> None:
    session = live.new()
    for number in range(1, 4):
        session.say(f"/say round {number}")
        session.send(f"/say lost {number}\n/sleep 30")
        session.wait_for_text(f"lost {number}")
        session.kill_keeper()
    assert session.say("what did I say?").startswith("SEEN 7 user texts")
    session.check_log()
    assert session.count("error") == 3
    assert session.count("session_resumed") == 3


def test_an_idle_session_whose_keeper_was_killed(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    session.kill_keeper()
    assert session.status()["stop_reason"] == "agent_crashed"
    assert session.say("what did I say?").startswith("SEEN 2")
    assert session.count("error") == 0
    assert session.markers() == []


def test_the_turn_outlives_the_command_that_began_it(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/stream 30 0.03") as watcher:
        session.wait_for_text("chunk 3 ")
        watcher.kill()
    assert watcher.returncode == -9
    assert is_alive(session.keeper)
    session.wait_idle()
    assert session.count("agent_message") == 30
    assert session.events("done")[0].content["stop_reason"] == "end_turn"
    assert session.inputs()[0][0] == "sent"


def test_a_session_outlives_the_command_that_was_starting_it(live: Live) -> None:
    """The keeper does not need its parent: whoever comes next finds the session live, and no second agent."""
    starting = live.start("session", "new", "--agent", "echo", env={"AGH_ECHO_OPTIONS": "--init-delay 0.7"})
    (session,) = wait_until(live.sessions)
    wait_until(lambda: (session.directory / "meta.json").exists() and session.meta()["launch"])
    starting.kill()
    assert session.say("hello") == "echo: hello"
    assert session.count("session_resumed") == 0


def test_a_keeper_killed_while_it_starts_is_no_bug_in_agh(live: Live) -> None:
    starting = live.start("session", "new", "--agent", "echo", env={"AGH_ECHO_OPTIONS": "--init-delay 60"})
    (session,) = wait_until(live.sessions)
    wait_until(lambda: (session.directory / "meta.json").exists() and session.meta()["keeper"])
    kill(session.meta()["keeper"]["pid"])
    _, err = starting.communicate(timeout=20)
    assert starting.returncode == 7, err
    assert session.id in err.decode()
