"""Prompts over ACP: their answers, their updates, those of others, and cancelling."""

from __future__ import annotations

import json

from tests.plugins.acp.client import Client, text_of
from tests.support.live import Live
from tests.support.wait import PATIENCE, wait_until


def test_a_prompt_is_answered_when_its_turn_ends_with_its_usage(shared_client: Client) -> None:
    session = shared_client.new()
    number = shared_client.start_prompt(session, "one two three")
    result = shared_client.result(number)
    assert result["stopReason"] == "end_turn"
    assert result["usage"]["totalTokens"] > 0
    frames = [frame for frame in shared_client.messages if frame.get("id") == number or "method" in frame]
    texts = [update["content"]["text"] for update in shared_client.updates(session, "agent_message_chunk")]
    assert "".join(texts) == "echo: one two three"
    assert frames.index({"jsonrpc": "2.0", "id": number, "result": result}) > max(
        index for index, frame in enumerate(frames) if "agent_message_chunk" in str(frame)
    )
    assert shared_client.updates(session, "user_message_chunk") == []


def test_the_title_of_the_first_prompt_reaches_the_client(shared_client: Client) -> None:
    session = shared_client.new()
    shared_client.prompt(session, "fix the login page")
    assert shared_client.updates(session, "session_info_update")[-1]["title"] == "fix the login page"


def test_turns_of_others_flow_to_the_client_in_the_same_order(
    shared_client: Client, shared_live: Live
) -> None:
    session = shared_client.new()
    other = Client(shared_live, "--agent", "echo")
    other.initialize()
    other.load(session)
    shared_client.prompt(session, "from the first")
    assert session.say("from the command line") == "echo: from the command line"
    other.prompt(session, "from the second")
    session.wait_idle()
    expected = ["from the first", "from the command line", "from the second"]
    for each in (shared_client, other):
        wait_until(lambda each=each: each.text(session).endswith("from the second"), what="all turns")
        assert each.text(session) == "".join(f"echo: {text}" for text in expected)
    assert shared_client.text(session, "user_message_chunk") == "".join(expected[1:])
    assert other.text(session, "user_message_chunk") == "".join(expected[:2])


def test_two_clients_and_a_command_that_prompt_at_once_see_one_order(
    shared_client: Client, shared_live: Live
) -> None:
    session = shared_client.new()
    other = Client(shared_live, "--agent", "echo")
    other.initialize()
    other.load(session)
    mine = [shared_client.start_prompt(session, f"/stream 3 0.01\nmine {number}") for number in range(3)]
    command = session.start_prompt("/stream 3 0.01\nof the command line")
    theirs = [other.start_prompt(session, f"/stream 3 0.01\ntheirs {number}") for number in range(3)]
    for each, numbers in ((shared_client, mine), (other, theirs)):
        assert [each.result(number)["stopReason"] for number in numbers] == ["end_turn"] * 3
    assert command.wait(PATIENCE) == 0
    session.wait_idle()
    expected = session.text()
    assert expected.count("chunk 1 ") == 7
    for each in (shared_client, other):
        wait_until(lambda each=each: len(each.text(session)) >= len(expected), what="all turns")
        assert each.text(session) == expected
    prompts = [text for _, text in session.inputs()]
    for each, own in ((shared_client, "mine"), (other, "theirs")):
        shown = text_of(each.updates(session), "user_message_chunk")
        assert shown == [text for text in prompts if own not in text]


def test_images_embedded_context_and_links_pass(shared_client: Client) -> None:
    session = shared_client.new()
    image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    resource = {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}}
    link = {"type": "resource_link", "uri": "file:///b.py", "name": "b.py"}
    unknown = {"type": "hologram", "uri": "holo:1", "_meta": {"a": 1}}
    shared_client.prompt(session, "see", image, resource, link, unknown)
    assert "[image image/png]" in shared_client.text(session)
    assert "[resource file:///a.py]" in shared_client.text(session)
    assert "[resource_link file:///b.py]" in shared_client.text(session)
    shown = [update["content"] for update in shared_client.load(session) if "user" in update["sessionUpdate"]]
    assert shown == [{"type": "text", "text": "see"}, image, resource, link, unknown]


def test_what_the_agent_does_not_take_is_refused(shared_client: Client) -> None:
    session = shared_client.new()
    sound = {"type": "audio", "mimeType": "audio/wav", "data": "aGk="}
    answer = shared_client.answer(shared_client.start_prompt(session, "hear", sound))
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


def test_a_turn_that_fails_is_an_error(shared_client: Client) -> None:
    session = shared_client.new()
    answer = shared_client.answer(shared_client.start_prompt(session, "/tool"))
    assert answer["error"]["code"] == -32602
    assert "cannot run" in answer["error"]["message"]
    assert shared_client.prompt(session, "go on")["stopReason"] == "end_turn"


def test_cancelling_ends_a_running_turn_and_drops_what_waits(shared_client: Client) -> None:
    session = shared_client.new()
    running = shared_client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: shared_client.text(session), what="a chunk")
    waiting = shared_client.start_prompt(session, "never")
    wait_until(lambda: len(session.inputs()) == 2, what="the second prompt in the queue")
    shared_client.notify("session/cancel", sessionId=session.id)
    assert shared_client.result(running)["stopReason"] == "cancelled"
    assert shared_client.result(waiting)["stopReason"] == "cancelled"
    assert shared_client.prompt(session, "go on")["stopReason"] == "end_turn"
    assert "never" not in shared_client.text(session)


def test_a_cancel_right_after_the_prompt_counts(shared_client: Client) -> None:
    session = shared_client.new()
    session.stop()
    number = shared_client.start_prompt(session, "/stream 1000 0.05")
    shared_client.notify("session/cancel", sessionId=session.id)
    assert shared_client.result(number)["stopReason"] == "cancelled"


def test_a_request_can_be_cancelled_by_its_id(shared_client: Client) -> None:
    session = shared_client.new()
    number = shared_client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: shared_client.text(session), what="a chunk")
    shared_client.notify("$/cancel_request", requestId=number)
    assert shared_client.result(number)["stopReason"] == "cancelled"


def test_the_turn_of_another_can_be_cancelled(shared_client: Client) -> None:
    session = shared_client.new()
    turn = session.send("/stream 1000 0.05")
    wait_until(lambda: shared_client.text(session), what="a chunk")
    shared_client.notify("session/cancel", sessionId=session.id)
    wait_until(lambda: session.has_ended(turn), what="the end of the turn")


def test_a_prompt_makes_a_stopped_session_live(shared_client: Client) -> None:
    session = shared_client.new()
    session.stop()
    assert shared_client.prompt(session, "hello")["stopReason"] == "end_turn"
    assert shared_client.text(session).endswith("echo: hello")


def test_a_keeper_that_is_killed_answers_with_an_error_and_the_next_prompt_goes_on(
    shared_client: Client,
) -> None:
    session = shared_client.new()
    number = shared_client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: shared_client.text(session), what="a chunk")
    session.kill_keeper()
    assert shared_client.answer(number)["error"]["code"] == -32603
    assert shared_client.prompt(session, "hello")["stopReason"] == "end_turn"
    assert [status for status, _ in session.inputs()] == ["interrupted", "sent"]


def test_terminals_of_agh_show_as_text(shared_client: Client) -> None:
    shared_client.answers["session/request_permission"] = lambda request: {
        "outcome": {"outcome": "selected", "optionId": "allow"}
    }
    session = shared_client.new()
    shared_client.prompt(session, "/run echo printed")
    assert '"terminal"' not in str(shared_client.updates(session)).replace("'", '"')


def test_what_the_agent_says_about_itself_passes(shared_client: Client) -> None:
    session = shared_client.new()
    shared_client.prompt(session, "/commands")
    shared_client.prompt(session, "/plan one; two")
    kinds = {update["sessionUpdate"] for update in shared_client.updates(session)}
    assert {"available_commands_update", "plan", "usage_update"} <= kinds
    shared_client.call("session/resume", sessionId=session.id, cwd="/", mcpServers=[])
    wait_until(
        lambda: len(shared_client.updates(session, "available_commands_update")) == 2, what="the commands"
    )
