"""How long a request waits: as long as it takes if somebody is there, five minutes if nobody is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agh.keeper.agent.policy import time_to_answer
from tests.support.clock import Clock
from tests.support.live import Live
from tests.support.permissions import outcomes, pending
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until


def seconds(timeout: float | None, *, attended: bool = False, **settings: Any) -> float:
    turns = SimpleNamespace(current_id="turn-1", attended={"turn-1"} if attended else set())
    live = SimpleNamespace(settings={"permissions.timeout": timeout, **settings}, turns=turns)
    return time_to_answer(cast(Any, live))


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (seconds(None), 300),
        (seconds(None, attended=True), 0),
        (seconds(None, notify={"desktop": True}), 0),
        (seconds(None, notify={}), 300),
        (seconds(60, attended=True), 60),
        (seconds(0), 0),
    ],
)
def test_the_time_depends_on_who_is_there(waits: float, expected: float) -> None:
    assert waits == expected


def test_a_request_waits_for_whoever_is_at_the_terminal(live: Live, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    session = clock.new(live)
    with open_terminal(live, "session", "prompt", session.id, "/ask path=a.txt Edit a.txt") as terminal:
        terminal.shows("allow it?")
        clock.set(400)
        session.hello()
        terminal.type("y\n")
        assert terminal.ends() == 0
    assert outcomes(session) == [("allowed", "terminal")]


def test_a_request_that_nobody_watches_is_refused_after_five_minutes(live: Live, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    session = clock.new(live)
    session.send("/ask path=a.txt")
    pending(session)
    clock.set(290)
    session.hello()
    assert outcomes(session) == [(None, None)]
    clock.set(310)
    session.hello()
    wait_until(lambda: outcomes(session) == [("denied", "timeout")])


def test_zero_waits_as_long_as_it_takes(live: Live) -> None:
    live.configure("[permissions]\ntimeout = 0")
    session = live.new()
    session.send("/ask path=a.txt\n/say went on")
    request = pending(session)
    session.agh("approve", request.request_id)
    session.wait_for_text("went on")


def test_a_timeout_shows_in_list_transcript_and_recap(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '0.2s'")
    session = live.new()
    session.tell("/ask path=a.txt")
    wait_until(lambda: "permission_timeout" in session.markers())
    assert outcomes(session) == [("denied", "timeout")]
    wait_until(lambda: "(1 unanswered)" in live.agh("list").stdout)
    assert "nobody answered in time" in session.agh("transcript").stdout
    recap = json.loads(session.agh("recap", "-o", "json").stdout)["recap"]
    assert "permission_timeout" in [marker["kind"] for marker in recap["recent_markers"]]
    assert "nobody answered in time" in session.agh("recap").stdout
