"""What a client may send: spoiled messages, unknown methods, half a line, and its death at any byte."""

from __future__ import annotations

import json
import random

import pytest

from tests.plugins.acp.client import Client, Message, text_of
from tests.support.build import Home
from tests.support.live import Live
from tests.support.processes import children_of
from tests.support.wait import wait_until


def test_what_is_no_message_is_refused_and_ends_nothing(shared_client: Client) -> None:
    shared_client.write(b"{nonsense\n")
    assert shared_client.answer(None)["error"]["code"] == -32700
    shared_client.write(b"[]\n\n")
    wait_until(lambda: shared_client.messages[-1].get("error", {}).get("code") == -32600, what="the refusal")
    shared_client.write(b'{"jsonrpc":"2.0","id":"seven"}\n')
    wait_until(lambda: shared_client.messages[-1].get("id") == "seven", what="the refusal")
    assert shared_client.call("session/list")["sessions"] == []


def test_unknown_methods_are_refused_and_unknown_notifications_ignored(shared_client: Client) -> None:
    assert shared_client.error("_vendor/thing", any=1)["code"] == -32601
    assert shared_client.error("session/teleport")["code"] == -32601
    assert shared_client.error("session/teleport", sessionId="sess-0000000000000000")["code"] == -32002
    shared_client.notify("_vendor/thing", any=1)
    shared_client.notify("session/cancel", sessionId="no such session")
    shared_client.send({"jsonrpc": "2.0", "id": 77, "result": {}})  # nobody asked
    assert shared_client.call("session/list")["sessions"] == []


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {}, -32602),
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/no/such/directory", "mcpServers": []}, -32002),
        ("session/new", {"cwd": "/", "mcpServers": [1]}, -32602),
        ("session/load", {"sessionId": "sess-0000000000000000"}, -32002),
        ("session/load", {"sessionId": "../../etc"}, -32002),
        ("session/prompt", {"sessionId": "sess-0000000000000000", "prompt": []}, -32002),
        ("session/list", {"cwd": 1}, -32602),
        ("initialize", {}, -32602),
    ],
)
def test_bad_parameters_are_refused(shared_client: Client, method: str, params: Message, code: int) -> None:
    assert shared_client.error(method, **params)["code"] == code


def test_an_id_may_be_a_text(shared_client: Client) -> None:
    shared_client.send({"jsonrpc": "2.0", "id": "a", "method": "session/list", "params": {}})
    wait_until(
        lambda: [frame for frame in shared_client.messages if frame.get("id") == "a"], what="the answer"
    )


def test_an_editor_that_quits_leaves_its_prompt_to_the_session(client: Client) -> None:
    session = client.new()
    client.start_prompt(session, "/stream 20 0.05")
    assert client.close() == 0
    wait_until(lambda: session.count("done") == 1, what="the end of the turn")
    assert session.is_live()


def test_an_editor_that_is_killed_loses_nothing(client: Client, live: Live) -> None:
    session = client.new()
    client.start_prompt(session, "/stream 40 0.05")
    wait_until(lambda: client.text(session), what="a chunk")
    client.kill()
    later = Client(live, "--agent", "echo")
    later.initialize()
    shown = later.load(session)
    wait_until(lambda: session.count("done") == 1, what="the end of the turn")
    wait_until(lambda: "chunk 40 " in later.text(session), what="the last chunk")
    assert text_of(shown, "user_message_chunk") == ["/stream 40 0.05"]
    assert later.text(session) == session.text()


def test_a_keeper_is_not_below_the_program_that_started_it(client: Client) -> None:
    """Some clients end every process below the one that they started."""
    session = client.new()
    assert client.prompt(session, "hello")["stopReason"] == "end_turn"
    assert session.keeper not in descendants(client.process.pid)
    assert session.agent not in descendants(client.process.pid)


def descendants(pid: int) -> set[int]:
    below = set(children_of(pid))
    return below.union(*map(descendants, below))


def test_a_kill_at_any_byte_of_a_prompt_leaves_it_whole_or_out(live: Live) -> None:
    client = Client(live, "--agent", "echo")
    client.initialize()
    session = client.new()
    client.close()
    picks = random.Random(22)
    sent = 0
    for number in range(6):
        client = Client(live, "--agent", "echo")
        client.initialize()
        prompt = [{"type": "text", "text": f"number {number}"}]
        params = {"sessionId": session.id, "prompt": prompt}
        line = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params}).encode()
        is_whole = number % 3 == 0
        data = line + b"\n" if is_whole else line[: picks.randrange(1, len(line))]
        client.write(data)
        if is_whole:
            sent += 1
            wait_until(lambda count=sent: len(session.inputs()) == count, what="the prompt in the queue")
        client.kill()
    session.wait_idle()
    assert [status for status, _ in session.inputs()] == ["sent"] * sent
    session.check_log()
    later = Client(live, "--agent", "echo")
    later.initialize()
    assert text_of(later.load(session), "user_message_chunk") == [text for _, text in session.inputs()]


def test_long_lists_come_in_pages(client: Client, live: Live, home: Home) -> None:
    for _ in range(130):
        home.session(workspace_path=str(live.workspace))
    first = client.call("session/list", cwd=str(live.workspace))
    second = client.call("session/list", cwd=str(live.workspace), cursor=first["nextCursor"])
    assert "nextCursor" not in second
    ids = [info["sessionId"] for page in (first, second) for info in page["sessions"]]
    assert (len(first["sessions"]), len(ids), len(set(ids))) == (100, 130, 130)


def test_what_agh_does_not_know_passes_from_the_editor_to_the_agent(client: Client) -> None:
    session = client.new()
    params = {"sessionId": session.id, "deep": [{"n": None}, 1.5], "_meta": {"x": "ü"}}
    answer = client.call("_echo/mirror", **params)
    own = session.meta()["acp_session_id"]
    assert answer == {"mirrored": {**params, "sessionId": own}}
    assert client.error("_nobody/knows", sessionId=session.id)["code"] == -32601
    client.notify("_echo/note", sessionId=session.id, seen=True)
    wait_until(lambda: len(session.events("system")) >= 5, what="the notification in the log")
    events = [event.content for event in session.events("system")]
    titles = [event["title"] for event in events if "_" in event["title"]]
    assert titles == [
        "from the editor: _echo/mirror",
        "answer to _echo/mirror",
        "from the editor: _nobody/knows",
        "answer to _nobody/knows",
        "from the editor: _echo/note",
    ]
    raw = [event["raw"] for event in events if event["title"] == "from the editor: _echo/mirror"]
    assert raw == [{"method": "_echo/mirror", "params": {**params, "sessionId": own}}]
    session.stop()
    assert client.call("_echo/mirror", sessionId=session.id)["mirrored"]
    session.check_log()


def test_what_agh_does_not_know_passes_from_the_agent_to_the_editor(client: Client) -> None:
    session = client.new()
    answer = {"deep": [{"n": None}, 1.5], "text": "ü"}
    client.answers["_vendor/ask"] = lambda request: answer
    client.prompt(session, '/request _vendor/ask {"a": {"b": [1, null]}}')
    (request,) = client.requests("_vendor/ask")
    assert request["params"] == {"sessionId": session.id, "a": {"b": [1, None]}}
    assert client.text(session) == f"answer: {json.dumps(answer, sort_keys=True)}"
    stored = [event.content for event in session.events("system") if "_vendor/ask" in event.content["title"]]
    assert [event["title"] for event in stored] == ["_vendor/ask", "answer to _vendor/ask"]
    assert stored[0]["raw"]["params"]["a"] == {"b": [1, None]}
    assert stored[1]["raw"] == {"result": answer}
    client.prompt(session, "/unknown hologram\n/ext _vendor/news")
    (update,) = client.updates(session, "hologram")
    assert update == {"sessionUpdate": "hologram", "note": "an update of a kind that nobody knows"}
    assert client.wait_for_request("_vendor/news")["params"] == {"sessionId": session.id}


def test_an_error_of_the_editor_passes_and_without_an_editor_agh_refuses(client: Client) -> None:
    session = client.new()
    number = client.start_prompt(session, "/request _vendor/ask")
    request = client.wait_for_request("_vendor/ask")
    error = {"code": -32007, "message": "not today", "data": {"why": 1}}
    client.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
    client.result(number)
    assert client.text(session) == f"answer: {json.dumps(error, sort_keys=True)}"
    client.call("session/close", sessionId=session.id)
    assert "-32601" in session.say("/request _vendor/ask")
