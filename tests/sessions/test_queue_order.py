"""A busy session queues: first in, first out; what was acknowledged is never lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.live import Live, Session
from tests.support.processes import kill
from tests.support.wait import wait_until


def test_prompts_wait_their_turn_in_order(live: Live) -> None:
    session = live.new()
    session.send("/ask path=a.txt\n/say first")
    second = session.start_prompt("/say second", "-o", "text")
    wait_until(lambda: len(session.inputs()) == 2)
    third = session.start_prompt("/say third", "-o", "text")
    wait_until(lambda: len(session.inputs()) == 3)
    session.decide("allow")
    for process, word in ((second, b"second\n"), (third, b"third\n")):
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, word)
        assert b"busy" in err
    assert [status for status, _ in session.inputs()] == ["sent"] * 3
    assert session.markers() == ["prompt_queued", "prompt_queued", "prompt_accepted", "prompt_accepted"]
    bounds = [event.turn_id for event in session.events("user_message", "done")]
    first, *_ = bounds
    assert bounds == [turn for turn in dict.fromkeys(bounds) for _ in range(2)], "one turn at a time"
    assert session.text().endswith("first" + "second" + "third")
    assert session.events("user_message")[0].turn_id == first
    session.check_log()


def test_a_full_queue_refuses_and_stores_nothing(live: Live) -> None:
    session = live.new()
    for number in range(11):
        session.send("/sleep 30" if number == 0 else f"{number}")
    assert session.error("prompt", "one too many", code=6)["code"] == "queue_full"
    assert len(session.inputs()) == 11


def test_idle_means_that_nothing_is_queued(shared: Session) -> None:
    shared.send("/ask path=a.txt")
    for _ in range(5):
        shared.send("/sleep 0.05")
    with shared.live.start("session", "wait", shared.id, "--until", "idle", "--timeout", "20s") as waiting:
        shared.live.reads_the_log(waiting, shared)
        shared.decide("allow")
        waiting.communicate(timeout=30)
    assert {status for status, _ in shared.inputs()[-6:]} == {"sent"}


def test_a_cancel_ends_one_turn_and_the_next_prompt_runs(shared: Session) -> None:
    turns = [shared.send(text) for text in ("/sleep 30", "/say next")]
    shared.agh("cancel")
    shared.wait_idle()
    ends = [event for turn_id in turns for event in shared.events("done", turn=turn_id)]
    assert [event.content["stop_reason"] for event in ends] == ["cancelled", "end_turn"]
    assert [shared.text(turn_id) for turn_id in turns] == ["", "next"]


def killed_keeper(session: Session) -> None:
    session.kill_keeper()


def dead_agent(session: Session) -> None:
    kill(session.agent)
    wait_until(lambda: not session.is_live())


def stopped(session: Session) -> None:
    session.stop()


@pytest.mark.parametrize("end", [killed_keeper, dead_agent, stopped])
def test_a_waiting_prompt_outlives_the_session(live: Live, end: Callable[[Session], None]) -> None:
    """It was acknowledged and never sent: it stays queued, and comes first when the session is live again."""
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.send("/say waited")
    end(session)
    assert session.inputs()[1] == ("queued", "/say waited")
    assert session.count("user_message") == 1, "it was not sent, so nobody said it"
    session.say("/say newer")
    session.wait_idle()
    assert session.inputs()[1:] == [("sent", "/say waited"), ("sent", "/say newer")]
    assert [event.content["text"] for event in session.events("agent_message")] == [
        "begun",
        "waited",
        "newer",
    ]
    session.check_log()


def test_a_resume_sends_what_waits(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.send("/say waited")
    session.kill_keeper()
    session.agh("resume")
    session.wait_for_text("waited")


def test_a_prompt_to_a_session_that_is_stopping_is_not_lost(live: Live) -> None:
    session = live.new("--deaf")
    live.start("session", "stop", session.id)
    wait_until(lambda: session.meta()["state"] == "stopping")
    assert session.say("/say through") == "through"
