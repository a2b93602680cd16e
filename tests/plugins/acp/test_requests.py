"""Permission requests and questions: in the editor, at the command line, and the first answer counts."""

from __future__ import annotations

from typing import Any

from tests.plugins.acp.client import Client
from tests.support.live import Live
from tests.support.questions import form
from tests.support.wait import wait_until


def choose(option_id: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def test_the_editor_answers_a_permission_request(shared_client: Client) -> None:
    session = shared_client.new()
    shared_client.answers["session/request_permission"] = lambda request: choose("yes")
    shared_client.prompt(session, "/ask Write the file")
    (request,) = shared_client.requests("session/request_permission")
    assert request["params"]["sessionId"] == session.id
    assert request["params"]["toolCall"]["title"] == "Write the file"
    assert [option["optionId"] for option in request["params"]["options"]][:2] == ["yes", "yes-always"]
    assert session.fetch("SELECT decision, decided_by FROM permissions") == [("allowed", "acp")]


def test_the_command_line_answers_and_the_editor_is_told(shared_client: Client) -> None:
    session = shared_client.new()
    number = shared_client.start_prompt(session, "/ask Write the file")
    request = shared_client.wait_for_request("session/request_permission")
    session.agh("approve")
    assert shared_client.result(number)["stopReason"] == "end_turn"
    withdrawn = [message["params"]["requestId"] for message in shared_client.requests("$/cancel_request")]
    assert withdrawn == [request["id"]]
    shared_client.reply(request, choose("no"))  # too late
    assert shared_client.prompt(session, "go on")["stopReason"] == "end_turn"
    assert session.fetch("SELECT decision FROM permissions") == [("allowed",)]


def test_a_client_that_is_silent_or_closes_the_dialog_blocks_nothing(
    shared_client: Client, shared_live: Live
) -> None:
    session = shared_client.new()
    number = shared_client.start_prompt(session, "/ask Write the file")
    request = shared_client.wait_for_request("session/request_permission")
    shared_client.reply(request, {"outcome": {"outcome": "cancelled"}})
    assert shared_client.call("session/list")["sessions"]
    session.decide("allow")
    assert shared_client.result(number)["stopReason"] == "end_turn"


def test_what_waits_is_asked_of_a_client_that_comes_later(shared_client: Client, shared_live: Live) -> None:
    session = shared_live.new()
    turn = session.send("/ask Write the file")
    wait_until(lambda: session.fetch("SELECT 1 FROM permissions"), what="a request")
    shared_client.load(session)
    request = shared_client.wait_for_request("session/request_permission")
    shared_client.reply(request, choose("no"))
    wait_until(lambda: session.has_ended(turn), what="the end of the turn")
    assert session.fetch("SELECT decision FROM permissions") == [("denied",)]


def test_two_clients_are_asked_and_the_first_answer_counts(shared_client: Client, shared_live: Live) -> None:
    session = shared_client.new()
    other = Client(shared_live, "--agent", "echo")
    other.initialize()
    other.load(session)
    number = shared_client.start_prompt(session, "/ask Write the file")
    mine = shared_client.wait_for_request("session/request_permission")
    theirs = other.wait_for_request("session/request_permission")
    other.reply(theirs, choose("no"))
    assert shared_client.result(number)["stopReason"] == "end_turn"
    shared_client.reply(mine, choose("yes"))
    assert shared_client.prompt(session, "go on")["stopReason"] == "end_turn"
    assert session.fetch("SELECT decision FROM permissions") == [("denied",)]


def test_a_file_of_agh_is_asked_for_in_the_editor(shared_client: Client, shared_live: Live) -> None:
    session = shared_client.new()
    shared_client.answers["session/request_permission"] = lambda request: choose("allow")
    path = shared_live.workspace / "file.txt"
    shared_client.prompt(session, f"/write {path} hello")
    assert path.read_text() == "hello"
    (request,) = shared_client.requests("session/request_permission")
    assert str(path) in request["params"]["toolCall"]["title"]


def test_the_editor_answers_a_question(shared_client: Client) -> None:
    session = shared_client.new()
    shared_client.answers["elicitation/create"] = lambda request: {
        "action": "accept",
        "content": {"name": "Ada"},
    }
    shared_client.prompt(session, form("Who?", ("name",), name={"type": "string"}))
    (request,) = shared_client.requests("elicitation/create")
    assert request["params"]["message"] == "Who?"
    assert "Ada" in shared_client.text(session)


def test_an_answer_that_does_not_fit_leaves_the_question_open(shared_client: Client) -> None:
    session = shared_client.new()
    shared_client.answers["elicitation/create"] = lambda request: {
        "action": "accept",
        "content": {"age": "old"},
    }
    number = shared_client.start_prompt(session, form("Who?", ("name",), name={"type": "string"}))
    shared_client.wait_for_request("elicitation/create")
    session.agh("answer", "name=Ada")
    assert shared_client.result(number)["stopReason"] == "end_turn"
    assert "Ada" in shared_client.text(session)


def test_a_client_without_forms_is_told_how_to_answer(live: Live) -> None:
    client = Client(live, "--agent", "echo")
    client.initialize(elicitation=None, session=None)
    session = client.new()
    number = client.start_prompt(session, form("Who?", ("name",), name={"type": "string"}))
    wait_until(lambda: "agh session answer" in client.text(session), what="the notice")
    session.agh("answer", "name=Ada")
    assert client.result(number)["stopReason"] == "end_turn"
    assert client.requests("elicitation/create") == []
