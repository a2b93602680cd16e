"""The limits of a council: elapsed time restarts at a resume, budget and rounds carry over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.plugins.council.support import Council, oracle, perspective, profile

SHIFTED = str(Path(__file__).with_name("shifted"))


def costing(tmp_path: Path, *steps: str) -> tuple[str, ...]:
    return (perspective("advocate", command=oracle(tmp_path / "advocate.json", *steps)),)


def bounds(text: str) -> str:
    return f"[constraints]\n{text}\n[delegation]\n"


def test_paused_at_480_of_500_it_resumes_with_020_left(council: Council, tmp_path: Path) -> None:
    perspectives = costing(
        tmp_path, "/usage 1 1 4.8\n/say one", "/usage 1 1 0.15\n/say two", "/usage 1 1 0.1\n/sleep 30"
    )
    limits = bounds("rounds = { max = 5 }\nbudget = { max = 5.0 }") + "[[gates]]\nafter_round = 1\n"
    council.run(profile(limits, perspectives=perspectives), code=5)
    budget = council.status()["constraints"]["budget"]
    assert (budget["used"], budget["left"]) == (pytest.approx(4.8), pytest.approx(0.2))
    assert council.checkpoint()["constraint_state"]["budget_spent"] == pytest.approx(4.8)
    assert [event.content["council"]["constraint"] for event in warnings(council)] == ["budget"]
    council.agh("gate approve", code=6)
    state = council.state()
    assert state.rounds_completed == 2, "0.20 was left: 0.15 of it for one more round"
    assert council.session.meta()["stop_reason"] == "budget_exceeded"
    assert council.session.meta()["spent"]["cost_amount"] == pytest.approx(5.05), "cancelled in the third"
    assert (state.delegations["r3-advocate"].status, state.delegations["r3-advocate"].tries) == ("pending", 2)
    error = council.error("resume", code=6)
    assert error["code"] == "council_limit" and "--max-budget" in error["hint"]
    council.resume("--max-budget", "9", "--max-rounds", "2", "--detach")
    assert council.status()["constraints"]["budget"]["left"] == pytest.approx(3.95)
    council.agh("pause")


def warnings(council: Council) -> list[object]:
    return [event for event in council.session.events("system") if event.content["action"] == "constraint"]  # type: ignore[misc]


def set_clock(path: Path, seconds: int) -> None:
    """Set the clock atomically: a keeper must never read an empty file."""
    path.with_suffix(".new").write_text(str(seconds))
    path.with_suffix(".new").replace(path)


def test_paused_after_45_of_60_minutes_it_resumes_with_60(council: Council, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    set_clock(clock, 0)
    paths = os.pathsep.join(filter(None, [SHIFTED, os.environ.get("PYTHONPATH")]))
    env = {"PYTHONPATH": paths, "AGH_TEST_CLOCK": str(clock)}
    perspectives = costing(tmp_path, "/say one", "/say two\n/sleep 2", "/say more\n/sleep 30")
    limits = bounds('rounds = { max = 9 }\ntime = { max = "60m" }')
    council.open(profile(limits, perspectives=perspectives), env=env)
    council.wait_for(lambda state: state.rounds_completed == 1)
    set_clock(clock, 2700)
    council.session.call("pause_after_round")  # at once: a command may take longer than the round
    council.agh("pause", "--after-round")
    assert council.session.meta()["stop_reason"] == "paused", "45 of 60 minutes do not pause it"
    assert 2700 <= council.checkpoint()["constraint_state"]["elapsed_seconds"] < 2760
    time = council.status()["constraints"]["time"]
    assert time["used"] >= 2700 and time["left"] == 3600
    set_clock(clock, 5400)
    council.agh("resume", "--detach", env=env)
    council.wait_for(lambda state: "r3-advocate" in state.delegations)
    set_clock(clock, 8000)
    council.agh("steer", "are you there?")
    assert council.session.is_live(), "43 more minutes have passed: of 60, since the resume"
    set_clock(clock, 9100)
    council.agh("steer", "time is up", code=None)  # wakes the keeper, whose clock was put forward
    council.wait_stopped()
    meta = council.session.meta()
    assert (meta["stop_reason"], meta["stop_detail"]) == ("timeout", "max_time")
    assert council.state().delegations["r3-advocate"].status == "pending", "cancelled, and not lost"
    assert council.session.status()["phase"] == "paused"


def test_a_deadline_cancels_the_round_and_it_is_gone_on_with(council: Council, tmp_path: Path) -> None:
    perspectives = costing(tmp_path, "/say slow\n/sleep 30", "/say well")
    limits = bounds('rounds = { max = 1 }\ntime = { max = "3s" }')
    view = council.run(profile(limits, perspectives=perspectives), code=6)
    assert view["stop_detail"] == "max_time"
    assert council.member("advocate").events("done")[0].content["stop_reason"] == "cancelled"
    assert council.resume("--max-time", "1h")["phase"] == "completed"
    assert council.state().delegations["r1-advocate"].answer == "well"
