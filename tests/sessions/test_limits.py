"""Limits: a session pauses when it has used them up, says so, and goes on only with a higher one."""

from __future__ import annotations

import json

import pytest

from agh.core.status import phase
from tests.support.live import Live, Session
from tests.support.permissions import pending, received
from tests.support.wait import wait_until


def paused(session: Session) -> dict[str, object]:
    """Wait until the session has paused; its metadata."""
    wait_until(lambda: not session.is_live(), what="it pauses")
    meta = session.meta()
    assert (meta["state"], phase(meta)) == ("stopped", "paused"), meta["stop_reason"]
    assert session.events()[-1].type == "session_paused"
    assert session.events()[-1].content["stop_reason"] == meta["stop_reason"]
    return meta


def refused(session: Session, *command: str, option: str) -> None:
    """Check that the session is refused, nothing is started, and the error says how to raise the limit."""
    before, verb = session.meta(), command[0]
    error = session.error(*command, code=6)
    assert error["code"] == "limit_reached"
    assert f"agh session resume {session.id} {option}" in error["hint"], verb
    wait_until(lambda: not session.is_live())
    assert session.meta() == before


def test_max_cost_reached_in_the_middle_of_a_turn(live: Live) -> None:
    session = live.new(args=("--max-cost", "1"))
    session.tell("/usage 10 5 0.4")
    viewer = session.start_prompt("/ask path=a.txt\n/usage 10 5 0.7\n/sleep 30\n/say never")
    pending(session)
    session.send("/say waited")
    session.decide("allow")
    viewer.communicate(timeout=20)
    assert viewer.returncode not in (0, 70)
    pause = paused(session)
    assert (pause["stop_reason"], pause["stop_detail"]) == ("budget_exceeded", "max_cost")
    assert pause["spent"]["cost_amount"] == pytest.approx(1.1)  # type: ignore[index]
    assert session.events("done")[-1].content["stop_reason"] == "cancelled"
    assert "never" not in session.text()
    view = session.status()
    assert (view["phase"], view["badge"], view["needs_resume"]) == ("paused", "paused", False)
    assert session.inputs()[-1] == ("queued", "/say waited")
    refused(session, "resume", option="--max-cost")
    refused(session, "prompt", "more", option="--max-cost")
    refused(session, "resume", "--max-turns", "50", option="--max-cost")
    refused(session, "resume", "--max-cost", "1.05", option="--max-cost")
    session.agh("resume", "--max-cost", "2")
    session.wait_for_text("waited")
    assert session.say("what did I say?").count("/say waited") == 1
    assert session.meta()["limits"]["max_cost"] == 2


def test_max_cost_and_an_agent_that_does_not_listen(live: Live) -> None:
    live.configure("[session]\ncancel_grace = '0.3s'")
    session = live.new(args=("--max-cost", "1"))
    session.send("/ignore-cancel\n/usage 10 5 1.5\n/sleep 60")
    wait_until(lambda: not session.is_live(), what="it pauses")
    assert paused(session)["stop_reason"] == "budget_exceeded"


def test_max_turns_by_configuration_and_the_sessions_own(live: Live) -> None:
    live.configure("[session.limits]\nmax_turns = 2")
    session = live.new()
    session.send("/ask path=a.txt")
    pending(session)
    session.send("/error")
    session.send("/say third")
    session.decide("allow")
    pause = paused(session)
    assert (pause["stop_reason"], pause["turns"]) == ("max_turns", 2), "a failed turn is a turn"
    assert session.inputs()[-1] == ("queued", "/say third"), "what waits is kept, and not sent"
    refused(session, "prompt", "more", option="--max-turns")
    session.agh("resume", "--max-turns", "4")
    session.wait_for_text("third")
    session.tell("/say fourth")
    assert paused(session)["turns"] == 4
    other = live.new(args=("--max-turns", "1"))
    other.tell("/say only")
    assert paused(other)["turns"] == 1, "its own limit comes before the configured one"


def test_max_time_ends_the_turn_and_the_clock_begins_anew(live: Live) -> None:
    live.configure("[session.supervision]\nheartbeat = '0.2s'")
    session = live.new(args=("--max-time", "1s"))
    session.send("/say begun\n/sleep 30")
    pause = paused(session)
    assert (pause["stop_reason"], pause["stop_detail"]) == ("timeout", "max_time")
    assert session.events("done")[0].content["stop_reason"] == "cancelled"
    assert pause["failure"] is None
    session.agh("resume")
    assert session.is_live(), "elapsed time restarts at zero"
    paused_again = session.prompt("/sleep 30", code=None)
    assert paused_again.returncode == 3
    assert paused(session)["stop_detail"] == "max_time"


def test_max_time_ends_a_session_that_does_nothing(live: Live) -> None:
    session = live.new(args=("--max-time", "0.5s"))
    wait_until(lambda: not session.is_live(), what="it pauses")
    assert paused(session)["stop_detail"] == "max_time"


def test_a_limit_is_raised_while_the_session_is_live(live: Live) -> None:
    session = live.new(args=("--max-turns", "1"))
    session.agh("resume", "--max-turns", "5")
    assert session.meta()["limits"]["max_turns"] == 5
    session.tell("/say one")
    session.tell("/say two")
    assert session.is_live()


def test_what_was_spent_and_done_survives_the_keepers_death(live: Live) -> None:
    session = live.new(args=("--max-cost", "1"))
    session.send("/usage 10 5 0.9\n/sleep 30")
    wait_until(lambda: session.fetch("SELECT cost_amount FROM token_usage") == [(0.9,)])
    session.kill_keeper()
    session.agh("resume")
    assert (session.meta()["spent"] or {}).get("cost_amount") == pytest.approx(0.9)
    session.send("/usage 10 5 0.2\n/sleep 30")
    assert paused(session)["stop_reason"] == "budget_exceeded"


def test_what_was_spent_before_the_keepers_death_is_not_spent_again(live: Live) -> None:
    """The keeper dies after the limit was reached, and before the session could pause."""
    session = live.new(args=("--max-cost", "1"))
    session.send("/ignore-cancel\n/usage 10 5 1.5\n/sleep 60")
    wait_until(lambda: "prompt_cancel" in session.markers())
    session.kill_keeper()
    session.agh("repair")
    refused(session, "resume", option="--max-cost")
    refused(session, "prompt", "more", option="--max-cost")


def test_an_interrupted_turn_is_a_turn(live: Live) -> None:
    session = live.new(args=("--max-turns", "1"))
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.kill_keeper()
    session.agh("repair")
    refused(session, "resume", option="--max-turns")


def test_limits_of_the_workspace(live: Live) -> None:
    live.trust("[session.limits]\nmax_turns = 9")
    (live.workspace / ".agh").mkdir()
    (live.workspace / ".agh" / "config.toml").write_text("[session.limits]\nmax_turns = 1")
    session = live.new()
    session.tell("/say one")
    assert paused(session)["stop_reason"] == "max_turns"


def test_a_pause_by_hand_goes_on_without_more_ado(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/sleep 30")
    session.wait_for_text("begun")
    session.send("/say waited")
    view = json.loads(session.agh("pause", "-o", "json").stdout)["session"]
    assert (view["phase"], view["stop_reason"]) == ("paused", "paused")
    assert paused(session)["stop_reason"] == "paused"
    session.agh("resume")
    session.wait_for_text("waited")
    assert received(session) == ["/say begun\n/sleep 30", "/say waited"]


def test_max_bytes_of_a_session(live: Live) -> None:
    session = live.new(args=("--max-bytes", "750000"))
    session.tell("/say small")
    session.send("/stream 2000 0 4000\n/say never\n/sleep 60")
    stored = paused(session)
    assert (stored["stop_reason"], stored["stop_detail"]) == ("max_bytes", "max_bytes")
    assert "never" not in session.text()
    assert sum(path.stat().st_size for path in session.directory.glob("events.db*")) < 3_750_000
    assert [one for one in session.events("runtime_warning") if "not recorded" in one.content["text"]]
    refused(session, "resume", option="--max-bytes")
    session.agh("resume", "--max-bytes", "90000000")
    assert session.say("/say again") == "again"
    session.check_log()


@pytest.mark.slow
def test_bytes_of_a_turn(live: Live) -> None:
    """An agent that ignores the cancel cannot fill the disk either."""
    live.configure("[session]\ncancel_grace = '1s'\n[session.limits]\nmax_turn_bytes = 500_000")
    session = live.new()
    for _ in range(3):
        session.tell("/stream 200 0 1000")
    session.send("/ignore-cancel\n/stream 10000 0 1000\n/sleep 60")
    stored = paused(session)
    assert (stored["stop_reason"], stored["stop_detail"]) == ("max_bytes", "max_turn_bytes")
    assert sum(path.stat().st_size for path in session.directory.glob("events.db*")) < 6_000_000
    assert session.say("/say again") == "again"
