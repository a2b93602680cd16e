"""The output of a command ends in its result, wherever the agent puts it, and so in everything made of it."""

from __future__ import annotations

import json
from typing import Any

from tests.support.answering import Answering
from tests.support.live import Live, Session


def call(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": "c1", "status": "pending", **fields}


def update(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c1", **fields}


def chunk(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


CODEX = [
    call(title="make test", kind="execute", name="exec_command"),
    update(_meta={"terminal_output_delta": {"terminal_id": "c1", "data": "41 tests "}}),
    update(_meta={"terminal_output_delta": {"terminal_id": "c1", "data": "passed\n"}}),
    update(status="completed", _meta={"terminal_exit": {"exit_code": 0, "signal": None}}),
]
PI = [
    call(title="make test", kind="execute", _meta={"toolName": "exec_command"}),
    update(_meta={"terminal_output": {"terminal_id": "c1", "data": "41 tests passed\n"}}),
    update(status="completed", rawOutput={"details": {}}),
]
GOOSE = [
    call(title="make test", _meta={"goose": {"toolCall": {"toolName": "exec_command"}}}),
    update(content=content("41 tests passed\n")),
    update(status="completed"),
]
OPENCODE = [
    call(title="make test", kind="execute", _meta={"tool_name": "exec_command"}),
    update(status="completed", rawOutput={"output": "41 tests passed\n", "metadata": {"exit": 0}}),
]


PRODUCTS = {"codex": CODEX, "pi": PI, "goose": GOOSE, "opencode": OPENCODE}


def only_result(session: Session, turn: str) -> dict[str, Any]:
    (event,) = session.events("tool_result", turn=turn)
    return event.content


def numbered(updates: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """Return an answer with these updates, whose call and output have this number."""
    text = json.dumps(updates).replace("41 tests", f"{number} tests").replace('"c1"', f'"c{number}"')
    return {"updates": json.loads(text)}


def test_output_of_every_product_is_in_the_record(live: Live) -> None:
    answers = [numbered(updates, number) for number, updates in enumerate(PRODUCTS.values(), 41)]
    session = Answering(live, {"session/prompt": answers}).new()
    for number, product in enumerate(PRODUCTS, 41):
        output = f"{number} tests passed"
        turn = session.turn("run the tests")["turn_id"]
        result = only_result(session, turn)
        assert (result["tool_name"], result["title"]) == ("exec_command", "make test"), product
        assert output in session.agh("transcript").stdout, product
        assert output in live.agh("session", "search", output).stdout, product
    session.stop()
    page = live.workspace / "page.html"
    session.agh("export", "--format", "html", "--to", page)
    for number, product in enumerate(PRODUCTS, 41):
        assert f"{number} tests passed" in page.read_text(), product


def test_output_is_in_the_history_that_another_agent_gets(live: Live) -> None:
    session = Answering(live, {"session/prompt": {"updates": CODEX}}).new()
    session.prompt("run the tests", "-o", "text")
    session.stop()
    session.agh("resume", "--agent", "echo")
    session.prompt("/recall")
    assert "41 tests passed" in session.text()


def test_our_own_terminal(live: Live) -> None:
    """The agent only names the terminal, and releases it before its tool call is completed."""
    session = live.new(args=("--permissions", "approve-all"))
    for command in ("echo out; echo err >&2", "echo out; echo err >&2; exit 3"):
        session.tell(f"/run {command}")
        result = only_result(session, session.events("done")[-1].turn_id)
        assert result["tool_result"]["stdout"] == "out\nerr\n"
        assert (result["tool_name"], result["title"]) == ("execute", command)


def test_news_that_is_not_chat_does_not_split_a_message(live: Live) -> None:
    title = {"sessionUpdate": "session_info_update", "title": "Tests"}
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    options = {"sessionUpdate": "config_option_update", "configOptions": []}
    updates = [chunk("The tests "), title, commands, chunk("are "), options, chunk("green.")]
    session = Answering(live, {"session/prompt": {"updates": updates}}).new()
    turn = session.turn("how are the tests?")
    assert [message["content"] for message in turn["messages"]][1:] == ["The tests are green."]
    messages = json.loads(session.agh("transcript", "-o", "json").stdout)["messages"]
    assert messages[-1]["content"] == "The tests are green."


def test_a_rule_by_the_name_of_a_tool(live: Live) -> None:
    """The name may stand in the tool call only; the request itself says no more than its kind."""
    live.configure("[[permissions.rules]]\ndecision = 'deny'\nname = 'exec_command'\n")
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    request = {"sessionId": "s-1", "toolCall": {"toolCallId": "c1", "kind": "execute"}, "options": options}
    frame = {"id": "r1", "method": "session/request_permission", "params": request}
    prompt = {"updates": [CODEX[0]], "frames": [frame]}
    session = Answering(live, {"session/prompt": prompt}).new("--permissions", "approve-all")
    session.prompt("run the tests", "-o", "text", code=None)
    ((decision, decided_by),) = session.fetch("SELECT decision, decided_by FROM permissions")
    assert (decision, decided_by) == ("denied", "rule")
