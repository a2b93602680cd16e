"""Prompts over ACP: their answers, their updates, those of others, and cancelling."""

from __future__ import annotations

import json

from tests.plugins.acp.client import Client, text_of
from tests.support.live import Live
from tests.support.wait import PATIENCE, wait_until


def test_a_prompt_is_answered_when_its_turn_ends_with_its_usage(client: Client) -> None:
    session = client.new()
    number = client.start_prompt(session, "one two three")
    result = client.result(number)
    assert result["stopReason"] == "end_turn"
    assert result["usage"]["totalTokens"] > 0
    frames = [frame for frame in client.messages if frame.get("id") == number or "method" in frame]
    texts = [update["content"]["text"] for update in client.updates(session, "agent_message_chunk")]
    assert "".join(texts) == "echo: one two three"
    assert frames.index({"jsonrpc": "2.0", "id": number, "result": result}) > max(
        index for index, frame in enumerate(frames) if "agent_message_chunk" in str(frame)
    )
    assert client.updates(session, "user_message_chunk") == []


def test_the_title_of_the_first_prompt_reaches_the_client(client: Client) -> None:
    session = client.new()
    client.prompt(session, "fix the login page")
    assert client.updates(session, "session_info_update")[-1]["title"] == "fix the login page"


def test_turns_of_others_flow_to_the_client_in_the_same_order(client: Client, live: Live) -> None:
    session = client.new()
    other = Client(live, "--agent", "echo")
    other.initialize()
    other.load(session)
    client.prompt(session, "from the first")
    assert session.say("from the command line") == "echo: from the command line"
    other.prompt(session, "from the second")
    session.wait_idle()
    expected = ["from the first", "from the command line", "from the second"]
    for each in (client, other):
        wait_until(lambda each=each: each.text(session).endswith("from the second"), what="all turns")
        assert each.text(session) == "".join(f"echo: {text}" for text in expected)
    assert client.text(session, "user_message_chunk") == "".join(expected[1:])
    assert other.text(session, "user_message_chunk") == "".join(expected[:2])


def test_two_clients_and_a_command_that_prompt_at_once_see_one_order(client: Client, live: Live) -> None:
    session = client.new()
    other = Client(live, "--agent", "echo")
    other.initialize()
    other.load(session)
    mine = [client.start_prompt(session, f"/stream 3 0.01\nmine {number}") for number in range(3)]
    command = session.start_prompt("/stream 3 0.01\nof the command line")
    theirs = [other.start_prompt(session, f"/stream 3 0.01\ntheirs {number}") for number in range(3)]
    for each, numbers in ((client, mine), (other, theirs)):
        assert [each.result(number)["stopReason"] for number in numbers] == ["end_turn"] * 3
    assert command.wait(PATIENCE) == 0
    session.wait_idle()
    expected = session.text()
    assert expected.count("chunk 1 ") == 7
    for each in (client, other):
        wait_until(lambda each=each: len(each.text(session)) >= len(expected), what="all turns")
        assert each.text(session) == expected
    prompts = [text for _, text in session.inputs()]
    for each, own in ((client, "mine"), (other, "theirs")):
        shown = text_of(each.updates(session), "user_message_chunk")
        assert shown == [text for text in prompts if own not in text]


def test_images_embedded_context_and_links_pass(client: Client) -> None:
    session = client.new()
    image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    resource = {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}}
    link = {"type": "resource_link", "uri": "file:///b.py", "name": "b.py"}
    unknown = {"type": "hologram", "uri": "holo:1", "_meta": {"a": 1}}
    client.prompt(session, "see", image, resource, link, unknown)
    assert "[image image/png]" in client.text(session)
    assert "[resource file:///a.py]" in client.text(session)
    assert "[resource_link file:///b.py]" in client.text(session)
    shown = [update["content"] for update in client.load(session) if "user" in update["sessionUpdate"]]
    assert shown == [{"type": "text", "text": "see"}, image, resource, link, unknown]


def test_what_the_agent_does_not_take_is_refused(client: Client) -> None:
    session = client.new()
    sound = {"type": "audio", "mimeType": "audio/wav", "data": "aGk="}
    answer = client.answer(client.start_prompt(session, "hear", sound))
    assert answer["error"]["code"] == -32602
    assert session.inputs() == []


def test_an_editor_is_offered_what_the_agent_last_took(live: Live) -> None:
    def offered(*options: str) -> object:
        client = Client(live, *options)
        return client.initialize()["agentCapabilities"]["promptCapabilities"]

    assert offered("--agent", "echo") == {"image": True, "audio": False, "embeddedContext": True}
    session = live.new()
    caps = {"promptCapabilities": {"image": False, "audio": True}}
    path = session.directory / "meta.json"
    session.stop()
    path.write_text(json.dumps({**session.meta(), "acp_caps": caps}))
    changed = {"image": False, "audio": True, "embeddedContext": True}
    assert offered("--agent", "echo") == changed
    assert offered() == changed
    assert offered("--agent", "opencode") == {"image": True, "audio": False, "embeddedContext": True}
    path.write_text("{")
    assert offered() == {"image": True, "audio": False, "embeddedContext": True}


def test_a_turn_that_fails_is_an_error(client: Client) -> None:
    session = client.new()
    answer = client.answer(client.start_prompt(session, "/tool"))
    assert answer["error"]["code"] == -32602
    assert "cannot run" in answer["error"]["message"]
    assert client.prompt(session, "go on")["stopReason"] == "end_turn"


def test_cancelling_ends_a_running_turn_and_drops_what_waits(client: Client) -> None:
    session = client.new()
    running = client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: client.text(session), what="a chunk")
    waiting = client.start_prompt(session, "never")
    wait_until(lambda: len(session.inputs()) == 2, what="the second prompt in the queue")
    client.notify("session/cancel", sessionId=session.id)
    assert client.result(running)["stopReason"] == "cancelled"
    assert client.result(waiting)["stopReason"] == "cancelled"
    assert client.prompt(session, "go on")["stopReason"] == "end_turn"
    assert "never" not in client.text(session)


def test_a_cancel_right_after_the_prompt_counts(client: Client) -> None:
    session = client.new()
    session.stop()
    number = client.start_prompt(session, "/stream 1000 0.05")
    client.notify("session/cancel", sessionId=session.id)
    assert client.result(number)["stopReason"] == "cancelled"


def test_a_request_can_be_cancelled_by_its_id(client: Client) -> None:
    session = client.new()
    number = client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: client.text(session), what="a chunk")
    client.notify("$/cancel_request", requestId=number)
    assert client.result(number)["stopReason"] == "cancelled"


def test_the_turn_of_another_can_be_cancelled(client: Client) -> None:
    session = client.new()
    turn = session.send("/stream 1000 0.05")
    wait_until(lambda: client.text(session), what="a chunk")
    client.notify("session/cancel", sessionId=session.id)
    wait_until(lambda: session.has_ended(turn), what="the end of the turn")


def test_a_prompt_makes_a_stopped_session_live(client: Client) -> None:
    session = client.new()
    session.stop()
    assert client.prompt(session, "hello")["stopReason"] == "end_turn"
    assert client.text(session).endswith("echo: hello")


def test_a_keeper_that_is_killed_answers_with_an_error_and_the_next_prompt_goes_on(client: Client) -> None:
    session = client.new()
    number = client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: client.text(session), what="a chunk")
    session.kill_keeper()
    assert client.answer(number)["error"]["code"] == -32603
    assert client.prompt(session, "hello")["stopReason"] == "end_turn"
    assert [status for status, _ in session.inputs()] == ["interrupted", "sent"]


def test_terminals_of_agh_show_as_text(client: Client) -> None:
    client.answers["session/request_permission"] = lambda request: {
        "outcome": {"outcome": "selected", "optionId": "allow"}
    }
    session = client.new()
    client.prompt(session, "/run echo printed")
    assert '"terminal"' not in str(client.updates(session)).replace("'", '"')


def test_what_the_agent_says_about_itself_passes(client: Client) -> None:
    session = client.new()
    client.prompt(session, "/commands")
    client.prompt(session, "/plan one; two")
    kinds = {update["sessionUpdate"] for update in client.updates(session)}
    assert {"available_commands_update", "plan", "usage_update"} <= kinds
    client.call("session/resume", sessionId=session.id, cwd="/", mcpServers=[])
    wait_until(lambda: len(client.updates(session, "available_commands_update")) == 2, what="the commands")
