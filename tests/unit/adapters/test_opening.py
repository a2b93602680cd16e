"""What is asked of an agent when a conversation is opened: system prompt and tools."""

from __future__ import annotations

from typing import Any

import pytest

from agh.adapters.agents import AgentRecord, parse_agent
from agh.adapters.builtin import AGENTS
from agh.adapters.opening import opening
from agh.errors import AgentInvalid, SystemPromptRefused

PLAIN = AgentRecord("plain", ("plain",))
CLAUDE = parse_agent(next(agent for agent in AGENTS if agent["name"] == "claude"), "built-in")
APPEND, OVERRIDE = {"mode": "append", "text": "be brief"}, {"mode": "override", "text": "be brief"}


def advertised(**more: Any) -> dict[str, Any]:
    return {"sessionCapabilities": {"systemPrompt": more}}


def test_nothing_asked_nothing_sent() -> None:
    for agent in (PLAIN, CLAUDE):
        assert opening(agent, {}, None, []) == {}
        assert opening(agent, advertised(), None, []) == {}


def test_claude_takes_them_in_meta() -> None:
    assert opening(CLAUDE, {}, OVERRIDE, []) == {"_meta": {"systemPrompt": "be brief"}}
    assert opening(CLAUDE, {}, APPEND, ["Read", "edit", "execute(git *)", "Bash(git log:*)"]) == {
        "_meta": {
            "systemPrompt": {"append": "be brief"},
            "claudeCode": {"options": {"allowedTools": ["Read", "Bash(git log:*)"]}},
        }
    }, "kinds of tools are words of ours"


def test_the_capability_of_the_protocol_comes_first() -> None:
    content = [{"type": "text", "text": "be brief"}]
    for agent in (PLAIN, CLAUDE):
        fields = opening(agent, advertised(), APPEND, [])
        assert fields == {"systemPrompt": {"mode": "append", "content": content}}
        for offer in ({"mode": {"override": {}}}, {"override": {}}):
            fields = opening(agent, advertised(**offer), OVERRIDE, [])
            assert fields == {"systemPrompt": {"mode": "override", "content": content}}
        with pytest.raises(SystemPromptRefused) as caught:
            opening(agent, advertised(mode={}), OVERRIDE, [])
        assert caught.value.hint == "use --append-system-prompt"


@pytest.mark.parametrize("capabilities", [{}, {"sessionCapabilities": None}, {"sessionCapabilities": {}}])
@pytest.mark.parametrize("prompt", [APPEND, OVERRIDE], ids=["append", "override"])
def test_an_agent_that_takes_none_is_an_error(capabilities: dict[str, Any], prompt: dict[str, str]) -> None:
    with pytest.raises(SystemPromptRefused) as caught:
        opening(PLAIN, capabilities, prompt, [])
    assert (caught.value.exit, caught.value.message) == (2, "agent plain does not accept a system prompt")
    assert opening(PLAIN, capabilities, None, ["Read"]) == {}, "tools are our rules in any case"


@pytest.mark.parametrize("value", [{"colour": "x"}, {"system_prompt": 5}, {"system_prompt": ""}])
def test_a_record_that_says_it_wrongly(value: Any) -> None:
    with pytest.raises(AgentInvalid, match="session_meta"):
        parse_agent({"name": "x", "argv": ["x"], "session_meta": value}, "here")
