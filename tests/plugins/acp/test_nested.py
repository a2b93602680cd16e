"""A session whose agent is `agh acp` itself: two sessions, and neither ends the other by mistake."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from tests.plugins.acp.client import Client
from tests.support.live import Live, Session
from tests.support.processes import kill, look_at
from tests.support.wait import wait_until

INNER = f"{sys.executable} -P -m agh acp --agent echo"


class Pair(NamedTuple):
    outer: Session
    inner: Session


@pytest.fixture
def pair(live: Live) -> Pair:
    outer = live.new(args=("--command", INNER))
    (inner,) = [session for session in live.sessions() if session.id != outer.id]
    return Pair(outer, inner)


def test_a_prompt_goes_through_both_and_both_have_it(live: Live, pair: Pair) -> None:
    assert pair.outer.say("hello") == "echo: hello"
    assert pair.inner.text() == "echo: hello"
    assert [text for _, text in pair.inner.inputs()] == [text for _, text in pair.outer.inputs()]


def test_an_editor_in_front_of_both(live: Live) -> None:
    client = Client(live, "--command", INNER)
    client.initialize()
    session = client.new()
    client.prompt(session, "hello")
    assert client.text(session) == "echo: hello"


def test_the_keepers_have_marks_of_their_own(pair: Pair) -> None:
    keeper = look_at(pair.inner.keeper)
    assert keeper is not None
    assert keeper.environ["AGH_LAUNCH"].startswith("keeper-")
    agent = look_at(pair.inner.agent)
    assert agent is not None
    assert agent.environ["AGH_LAUNCH"] == pair.inner.cookie != pair.outer.cookie


@pytest.mark.parametrize("end", ["stop", "keeper", "leash", "agent"])
def test_the_inner_session_outlives_the_outer_one(pair: Pair, end: str) -> None:
    pair.outer.say("hello")
    keeper, agent = pair.inner.keeper, pair.inner.agent
    own = [pair.outer.keeper, pair.outer.leash, pair.outer.agent]
    if end == "stop":
        pair.outer.stop()
    else:
        kill(dict(zip(("keeper", "leash", "agent"), own, strict=True))[end])
    wait_until(lambda: not pair.outer.is_live(), what="the end of the outer session")
    wait_until(lambda: not any(map(look_at, own)), what="the end of its processes")
    pair.outer.agh("repair")
    assert (pair.inner.keeper, pair.inner.agent) == (keeper, agent)
    assert pair.inner.say("still there") == "echo: still there"


def test_the_outer_session_notices_the_end_of_the_inner_one(pair: Pair) -> None:
    pair.outer.say("hello")
    kill(pair.inner.keeper)
    wait_until(lambda: not pair.inner.is_live(), what="the end of the inner keeper")
    assert pair.outer.say("again") == "echo: again"
    assert pair.inner.text().endswith("echo: again")
