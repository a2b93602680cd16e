"""`agh session cancel`: the turn ends, the session stays; an agent that will not listen is ended."""

from __future__ import annotations

import json
import time

from tests.support.live import Live
from tests.support.processes import is_alive
from tests.support.wait import wait_until


def test_the_turn_ends_and_the_session_stays(live: Live) -> None:
    session = live.new()
    agent = session.agent
    with session.start_prompt("/say begun\n/sleep 30\n/say ended", "-o", "text") as watcher:
        session.wait_for_text("begun")
        result = session.agh("cancel", "-o", "json")
        out, err = watcher.communicate(timeout=20)
    assert watcher.returncode == 1
    assert out == b"begun\n"
    assert b"cancelled" in err
    (end,) = session.events("done", "error")
    assert end.turn_id == json.loads(result.stdout)["turn"]["turn_id"]
    assert end.content["stop_reason"] == "cancelled"
    assert "prompt_cancel" in session.markers()
    assert (session.agent, is_alive(agent)) == (agent, True)
    assert session.tell("and now?") == "echo: and now?"


def test_nothing_to_cancel(live: Live) -> None:
    session = live.new()
    assert session.error("cancel", code=6)["code"] == "no_turn"
    session.agh("cancel", "--grace", "soon", code=2)
    session.stop()
    assert session.error("cancel", code=7)["code"] == "keeper_gone"
    assert not session.is_live()


def test_an_agent_that_ignores_it_may_still_end_its_turn(live: Live) -> None:
    session = live.new()
    session.send("/ignore-cancel\n/say begun\n/sleep 1\n/say ended")
    session.wait_for_text("begun")
    session.agh("cancel", "--grace", "10s")
    session.wait_idle()
    assert session.text() == "begun\nended"
    assert session.events("done")[0].content["stop_reason"] == "end_turn"
    assert session.is_live()


def test_an_agent_that_ignores_it_beyond_the_grace_is_ended(live: Live) -> None:
    session = live.new()
    with session.start_prompt("/ignore-cancel\n/say begun\n/sleep 60") as watcher:
        session.wait_for_text("begun")
        session.agh("cancel", "--grace", "1s")
        watcher.communicate(timeout=20)
    assert watcher.returncode == 7
    wait_until(lambda: not live.processes())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"]) == ("stopped", "timeout")
    assert meta["failure"]["kind"] == "cancellation"
    assert "1 s" in meta["failure"]["summary"]
    assert [event.type for event in session.events("done", "error")] == ["error"]
    assert session.say("what did I say?").startswith("SEEN 2 user texts")


def test_a_hanging_agent_is_ended_soon_after_the_grace(live: Live) -> None:
    """The grace was the agent's chance: the end that follows does not ask it politely once more."""
    session = live.new()
    session.send("/say begun\n/hang")
    session.wait_for_text("begun")
    session.agh("cancel", "--grace", "0.2s")
    started = time.monotonic()
    wait_until(lambda: not session.is_live())
    assert time.monotonic() - started < 6


def test_no_grace_at_all(live: Live) -> None:
    session = live.new()
    session.send("/ignore-cancel\n/say begun\n/sleep 60")
    session.wait_for_text("begun")
    session.agh("cancel", "--grace", "0")
    wait_until(lambda: session.meta()["state"] != "active")
