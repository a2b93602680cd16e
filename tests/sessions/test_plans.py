"""Plans of an agent, on terminals and in the log."""

from __future__ import annotations

import pytest

from tests.support.answering import Answering
from tests.support.live import Live
from tests.support.terminal import open_terminal


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_a_plan_that_is_updated_and_dropped(live: Live, term: str) -> None:
    plan = {"type": "markdown", "planId": "p1", "content": "first look, then leap"}
    updates = [
        {"sessionUpdate": "plan_update", "plan": plan},
        {"sessionUpdate": "plan_removed", "planId": "p1"},
    ]
    agent = Answering(live, {"session/prompt": {"updates": updates}})
    session = agent.new()
    assert agent.requests("initialize")[0]["clientCapabilities"]["plan"] == {}
    with open_terminal(live, "session", "prompt", session.id, "hello", TERM=term) as terminal:
        assert terminal.ends() == 0
    assert "first look, then leap" in terminal.printed
    assert "the plan was dropped" in terminal.printed
    events = session.events("plan")
    assert [event.content["plan_id"] for event in events] == ["p1", "p1"]
    assert events[0].content["raw"]["plan"] == plan
    assert "first look, then leap" in session.agh("events", "-o", "human").stdout
