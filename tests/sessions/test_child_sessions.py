"""What a subagent says in a session of its own is never taken for the session's own words."""

from __future__ import annotations

from typing import Any

from tests.support.answering import Answering
from tests.support.live import Live


def of_child(**update: Any) -> dict[str, Any]:
    return {"sessionId": "child-1", "update": update}


def chunk(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def test_a_child_session_is_recorded_as_the_child(live: Live) -> None:
    updates = [
        chunk("I ask my "),
        of_child(**chunk("I am the child")),
        of_child(sessionUpdate="usage_update", used=99, size=100, cost={"amount": 5, "currency": "USD"}),
        of_child(sessionUpdate="tool_call", toolCallId="c", title="Read", status="completed"),
        of_child(sessionUpdate="session_info_update", title="The child"),
        chunk("helper."),
    ]
    session = Answering(live, {"session/prompt": {"updates": updates}}).new()
    assert session.say("hello") == "I ask my helper."
    assert "I am the child" not in session.agh("transcript").stdout
    assert not session.events("tool_result", "usage")
    assert session.meta()["title"] == "hello"
    children = session.events("system")
    assert {(event.content["session_id"], event.content["parent"]) for event in children} == {
        ("child-1", "s-1")
    }
    assert children[0].content["raw"]["content"]["text"] == "I am the child"
    assert all(
        event.content["session_id"] == "s-1" and "parent" not in event.content
        for event in session.events("agent_message")
    )


def test_a_request_of_a_child_is_judged_by_what_the_child_has_said(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'deny'\ncommand = 'rm *'\n")
    call = {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "rm -rf x"}, "status": "pending"}
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    params = {"sessionId": "child-1", "toolCall": {"toolCallId": "c"}, "options": options}
    prompt = {
        "updates": [of_child(sessionUpdate="tool_call", title="x", **call)],
        "frames": [{"id": "r1", "method": "session/request_permission", "params": params}],
    }
    session = Answering(live, {"session/prompt": prompt}).new("--permissions", "approve-all")
    session.prompt("hello", "-o", "text", code=None)
    ((decision, decided_by),) = session.fetch("SELECT decision, decided_by FROM permissions")
    assert (decision, decided_by) == ("denied", "rule")
    request = session.events("permission")[0]
    assert (request.content["session_id"], request.content["parent"]) == ("child-1", "s-1")
