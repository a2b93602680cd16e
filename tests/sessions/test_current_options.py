"""The metadata follows the agent: its model, its mode, its title, and the commands that it offers."""

from __future__ import annotations

import json
from typing import Any

from tests.support.answering import Answering
from tests.support.live import Live
from tests.support.wait import wait_until


def option(name: str, current: str, *values: str, category: str | None = None) -> dict[str, Any]:
    choices = [{"value": value, "name": value} for value in values]
    fields = {"id": name, "name": name, "type": "select", "currentValue": current, "options": choices}
    return {**fields, "category": category} if category else fields


SMALL = [
    option("m", "small", "small", "large", category="model"),
    option("effort", "low", "low", category="thought_level"),
]
LARGE = [
    option("m", "large", "small", "large", category="model"),
    option("effort", "high", "low", "high", category="thought_level"),
]
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "a"}, {"id": "plan", "name": "p"}]}
OPENED = {"result": {"sessionId": "s-1", "configOptions": SMALL, "modes": MODES}}


def test_what_the_agent_offers_after_a_choice(live: Live) -> None:
    """Efforts of the new model can be chosen, as the answer to the choice of the model has them."""
    agent = Answering(
        live, {"session/new": OPENED, "session/set_config_option": {"result": {"configOptions": LARGE}}}
    )
    session = agent.new()
    assert session.status()["current"] == {"model": "small", "effort": "low", "mode": "ask"}
    session.agh("set", "model=large")
    session.agh("set", "effort=high")
    assert session.status()["current"] == {"model": "large", "effort": "high", "mode": "ask"}
    assert "model:        large" in session.agh("status").stdout


def test_a_change_that_the_agent_makes_by_itself(live: Live) -> None:
    updates = [
        {"sessionUpdate": "config_option_update", "configOptions": LARGE},
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    ]
    agent = Answering(live, {"session/new": OPENED, "session/prompt": {"updates": updates}})
    session = agent.new("--mode", "ask")
    session.prompt("hello", "-o", "text")
    wait_until(lambda: session.status()["current"]["mode"] == "plan")
    status = session.status()
    assert status["current"] == {"model": "large", "effort": "high", "mode": "plan"}
    assert (status["model"], status["mode"]) == (None, "plan"), (
        "what was chosen follows, nothing else is chosen"
    )


def test_a_change_while_it_starts_does_not_undo_a_choice(live: Live) -> None:
    noise = {"updates": [{"sessionUpdate": "config_option_update", "configOptions": SMALL}], "result": {}}
    reply = {"result": {"configOptions": LARGE}}
    agent = Answering(
        live, {"session/new": OPENED, "session/set_mode": noise, "session/set_config_option": reply}
    )
    session = agent.new("--mode", "plan", "--model", "large")
    assert agent.requests("session/set_config_option")[-1]["value"] == "large"
    assert session.status()["current"] == {"model": "large", "effort": "high", "mode": "plan"}


def test_the_title_can_be_cleared(live: Live) -> None:
    info = {"sessionUpdate": "session_info_update", "title": "Tests", "updatedAt": "2026-11-17T10:00:00Z"}
    cleared = {"sessionUpdate": "session_info_update", "title": None}
    prompts = [{"updates": [info]}, {"updates": [cleared]}]
    session = Answering(live, {"session/prompt": prompts}).new()
    session.prompt("hello", "-o", "text")
    wait_until(lambda: session.status()["title"] == "Tests")
    assert session.status()["agent_updated_at"] == "2026-11-17T10:00:00Z"
    session.prompt("hello", "-o", "text")
    wait_until(lambda: session.status()["title"] is None)
    assert session.status()["agent_updated_at"] == "2026-11-17T10:00:00Z"


def test_the_commands_of_an_agent(live: Live) -> None:
    offered = [
        {"name": "review", "description": "Review a \x1b[31mchange", "input": {"hint": "what to review"}},
        {"name": "compact", "description": "Compact the context"},
        {"description": "without a name"},
        "nonsense",
    ]
    update = {"sessionUpdate": "available_commands_update", "availableCommands": offered}
    session = Answering(live, {"session/prompt": {"updates": [update]}}).new()
    none = session.agh("commands")
    assert none.stdout == "" and "no commands" in none.stderr
    session.prompt("hello", "-o", "text")
    wait_until(lambda: session.meta().get("commands"))
    printed = session.agh("commands").stdout
    assert "/review" in printed and "what to review" in printed and "\x1b" not in printed
    rows = json.loads(session.agh("commands", "-o", "json").stdout)["commands"]
    assert [row["name"] for row in rows] == ["review", "compact"]
