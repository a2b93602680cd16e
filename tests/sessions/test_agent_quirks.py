"""What single products do, and what agh makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.answering import Answering
from tests.support.live import Live, Session

INITIALIZED = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}


def chunk(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


@pytest.mark.parametrize(
    ("hands", "offers"),
    [
        ('["terminal"]', {"terminal": True}),
        ("[]", {}),
        (None, {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}),
    ],
)
def test_an_agent_is_offered_the_hands_of_its_record(
    live: Live, hands: str | None, offers: dict[str, Any]
) -> None:
    agent = Answering(live, **({"hands": hands} if hands else {}))
    agent.new()
    (params,) = agent.requests("initialize")
    offered = params["clientCapabilities"]
    assert {key: offered[key] for key in ("fs", "terminal") if key in offered} == offers


def test_hands_that_do_not_exist_are_refused(live: Live) -> None:
    Answering(live, hands='["feet"]')
    result = live.agh("session", "new", "--agent", "answering", code=2)
    assert "feet" in result.stderr and "fs, terminal" in result.stderr


def test_a_session_that_gemini_has_deleted_is_restored_from_the_log(live: Live) -> None:
    agent = Answering(live, {"session/prompt": {"updates": [chunk("The fix is in.")]}})
    session = agent.new()
    session.prompt("fix it", "-o", "text")
    session.stop()
    details = {"details": "No previous sessions found for this project."}
    gone = {"error": {"code": -32603, "message": "Internal error", "data": details}}
    agent.write({"session/load": gone, "session/new": {"result": {"sessionId": "s-2"}}})
    hello = json.loads(session.agh("resume", "-o", "json").stdout)["session"]
    assert hello["restore"]["strategy"] == "inject_history"
    session.prompt("go on", "-o", "text")
    assert "The fix is in." in agent.requests("session/prompt")[-1]["prompt"][0]["text"]


def test_tokens_as_gemini_counts_them(live: Live) -> None:
    quota = {"token_count": {"input_tokens": 120, "output_tokens": 30}, "model_usage": []}
    result = {"stopReason": "end_turn", "_meta": {"quota": quota}}
    session = Answering(live, {"session/prompt": {"updates": [chunk("ok")], "result": result}}).new()
    usage = session.turn("hello")["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (120, 30, 150)


def test_a_system_error_of_codex_is_a_failed_turn(live: Live) -> None:
    status = {"codex": {"threadStatus": {"type": "systemError"}}}
    updates = [chunk("stream disconnected"), {"sessionUpdate": "session_info_update", "_meta": status}]
    session = Answering(live, {"session/prompt": [{"updates": updates}, {"updates": [chunk("fine")]}]}).new()
    error = session.error("prompt", "hello", code=1)
    assert error["code"] == "turn_failed"
    assert "system error: stream disconnected" in error["message"]
    assert session.say("again") == "fine"
    assert [event.type for event in session.events("done", "error")] == ["error", "done"]


def test_a_refused_turn_says_what_it_means(live: Live) -> None:
    session = live.new()
    error = session.error("prompt", "/refuse", code=1)
    assert "refusal" in error["message"]
    (warning,) = session.events("runtime_warning")
    assert "may not remember it" in warning.content["text"]


def test_an_option_that_is_refused_at_a_resume_is_a_warning(live: Live) -> None:
    """Kimi Code refuses the mode that it is in."""
    modes = {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "a"}, {"id": "plan", "name": "p"}],
    }
    opened = {"session/new": {"result": {"sessionId": "s-1", "modes": modes}}}
    agent = Answering(live, opened | {"session/prompt": {"updates": [chunk("ok")]}})
    session = agent.new("--mode", "plan")
    session.prompt("hello", "-o", "text")
    session.stop()
    refusal = {
        "error": {"code": -32603, "message": "Internal error", "data": {"details": "Already in plan mode"}}
    }
    replay = {"updates": [chunk("ok")], "result": {"modes": modes}}
    agent.write(
        {"session/load": replay, "session/set_mode": refusal, "session/prompt": {"updates": [chunk("on")]}}
    )
    result = session.prompt("go on", "-o", "text")
    assert result.stdout == "on\n"
    assert "the agent refused mode plan" in result.stderr
    (warning,) = session.events("runtime_warning")
    assert "the agent refused mode plan" in warning.content["text"]
    assert session.meta()["mode"] == "plan"


def test_an_option_that_is_refused_at_the_start_is_an_error(live: Live) -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "plan", "name": "p"}]}
    refusal = {"error": {"code": -32603, "message": "no plan today"}}
    Answering(
        live,
        {"session/new": {"result": {"sessionId": "s-1", "modes": modes}}, "session/set_mode": refusal},
    )
    result = live.agh("session", "new", "--agent", "answering", "--mode", "plan", code=1)
    assert "no plan today" in result.stderr


@pytest.fixture(scope="module")
def embedding(module_live: Live) -> tuple[Answering, dict[bool, Session]]:
    """Return an agent with a session in which it takes texts, and another in which it does not."""
    agent, sessions = Answering(module_live), {}
    for embeds in (True, False):
        caps = {"promptCapabilities": {"embeddedContext": embeds}}
        agent.write({"initialize": {"result": {"protocolVersion": 1, "agentCapabilities": caps}}})
        sessions[embeds] = agent.new()
    return agent, sessions


@pytest.mark.parametrize(
    ("embeds", "data", "kind"),
    [
        (True, b"caf\xc3\xa9\n", "resource"),
        (False, b"caf\xc3\xa9\n", "resource_link"),
        (True, b"\xff\xfe", "resource_link"),
        (True, b"a\0b", "resource_link"),
        (True, b"x" * (300 << 10), "resource_link"),
    ],
)
def test_a_text_is_embedded_where_the_agent_takes_it(
    shared_live: Live, embedding: tuple[Answering, dict[bool, Session]], embeds: bool, data: bytes, kind: str
) -> None:
    agent, sessions = embedding
    path = shared_live.workspace / "notes.txt"
    path.write_bytes(data)
    sessions[embeds].prompt("read this", "--attach", path, "-o", "text")
    block = agent.requests("session/prompt")[-1]["prompt"][1]
    assert block["type"] == kind
    if kind == "resource":
        assert block["resource"] == {"uri": f"file://{path}", "mimeType": "text/plain", "text": "café\n"}
    else:
        assert block["uri"] == f"file://{path}"
