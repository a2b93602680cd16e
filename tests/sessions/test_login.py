"""Logging in to an agent: by each kind of method, before and in the middle of a session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.answering import Answering
from tests.support.live import Live
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

TERMINAL = {
    "id": "on-terminal",
    "name": "Log in here",
    "type": "terminal",
    "args": ["--login"],
    "env": {"LOGIN_STYLE": "politely"},
}
AGENT = {"id": "in-browser", "name": "Log in with a browser"}
KEY = {"id": "with-key", "name": "API key", "type": "env_var", "vars": [{"name": "ANSWERING_KEY"}]}


def needs_login(*methods: dict[str, Any], logout: bool = False, **more: Any) -> dict[str, Any]:
    caps = {"auth": {"logout": {}}} if logout else {}
    hello = {"protocolVersion": 1, "agentCapabilities": caps, "authMethods": list(methods)}
    return {"initialize": {"result": hello}, "needs_login": True, **more}


def agent_error(live: Live, *args: str, code: int, **options: Any) -> dict[str, Any]:
    result = live.agh("agent", *args, "-o", "json", code=code, **options)
    return dict(json.loads(result.stderr.splitlines()[-1])["error"])


def test_an_agent_that_wants_a_login_names_the_command(live: Live) -> None:
    agent = Answering(live, needs_login(TERMINAL, AGENT))
    result = live.agh("session", "new", "--agent", "answering", code=9)
    assert "agent answering needs a login: Authentication required" in result.stderr
    assert "hint: log in: agh agent login answering" in result.stderr
    assert agent.requests("initialize")[0]["clientCapabilities"]["auth"] == {"terminal": True}
    assert not agent.requests("authenticate")
    error = agent_error(live, "doctor", "answering", code=9)
    assert error["hint"] == "log in: agh agent login answering"
    assert error["details"]["methods"] == [
        "on-terminal (terminal): Log in here",
        "in-browser (agent): Log in with a browser",
    ]


def test_a_login_on_the_terminal(live: Live) -> None:
    agent = Answering(live, needs_login(TERMINAL, AGENT))
    with open_terminal(live, "agent", "login", "answering") as terminal:
        terminal.shows("who are you? politely")
        terminal.type("me\n")
        terminal.shows("logged in to answering with on-terminal")
        assert terminal.ends() == 0
    assert not agent.requests("authenticate")
    assert "login:              logged in\n" in live.agh("agent", "doctor", "answering").stdout
    agent.new()


@pytest.mark.parametrize(("answer", "exit_code"), [("someone", 0), ("me", 4)])
def test_a_login_on_the_terminal_that_fails(live: Live, answer: str, exit_code: int) -> None:
    Answering(live, needs_login(TERMINAL, login=exit_code))
    with open_terminal(live, "agent", "login", "answering") as terminal:
        terminal.shows("who are you?")
        terminal.type(f"{answer}\n")
        terminal.shows("the login to agent answering failed")
        assert terminal.ends() == 9


def test_a_login_on_the_terminal_needs_one(live: Live) -> None:
    Answering(live, needs_login(TERMINAL))
    error = agent_error(live, "login", "answering", code=2)
    assert "needs a terminal" in error["message"] and "--login" in error["hint"]


def test_a_login_that_the_agent_does_itself(live: Live) -> None:
    agent = Answering(live, needs_login(TERMINAL, AGENT, logout=True))
    report = json.loads(live.agh("agent", "login", "answering", "in-browser", "-o", "json").stdout)["agent"]
    assert report == {"name": "answering", "state": "logged in", "method": "in-browser"}
    assert agent.requests("authenticate") == [{"methodId": "in-browser"}]
    live.agh("agent", "doctor", "answering")
    assert "logged out" in live.agh("agent", "logout", "answering").stdout
    live.agh("agent", "doctor", "answering", code=9)


def test_a_login_that_the_agent_refuses(live: Live) -> None:
    refusal = {"error": {"code": -32603, "message": "Internal error", "data": {"details": "no browser"}}}
    Answering(live, needs_login(AGENT, authenticate=refusal))
    error = agent_error(live, "login", "answering", code=9)
    assert (error["code"], "no browser" in error["message"]) == ("login_failed", True)


def test_a_key_in_the_environment(live: Live) -> None:
    agent = Answering(live, needs_login(KEY | {"link": "https://example.com/keys"}))
    error = agent_error(live, "login", "answering", code=9)
    assert "ANSWERING_KEY is not set" in error["message"]
    assert (
        error["hint"] == "export ANSWERING_KEY=…, then try again; get its value at https://example.com/keys"
    )
    live.agh("agent", "login", "answering", env={"ANSWERING_KEY": "x"})
    assert agent.requests("authenticate") == [{"methodId": "with-key"}]
    report = live.agh("agent", "doctor", "answering", env={"ANSWERING_KEY": "x"}).stdout
    assert "logged in with ANSWERING_KEY" in report


def test_methods_that_are_not_there(live: Live) -> None:
    Answering(live, needs_login(AGENT))
    error = agent_error(live, "login", "answering", "by-magic", code=2)
    assert error["message"] == "agent answering has no login method by-magic; it offers: in-browser"
    Answering(live, needs_login())
    assert agent_error(live, "login", "answering", code=9)["code"] == "login_not_offered"
    assert agent_error(live, "logout", "answering", code=9)["code"] == "logout_not_offered"


def test_an_agent_without_methods_has_the_command_of_its_record(live: Live) -> None:
    Answering(live, {}, login="\"sh -c 'echo the own login'\"")
    with open_terminal(live, "agent", "login", "answering") as terminal:
        terminal.shows("the own login")
        terminal.shows("logged in to answering")
        assert terminal.ends() == 0


REFUSED = [
    {"code": -32000, "message": "Authentication required"},
    {"code": -32603, "message": "Internal error", "data": {"errorKind": "authentication_failed"}},
    {"code": -32603, "message": "Internal error", "data": {"details": "401 Unauthorized: invalid x-api-key"}},
]


@pytest.mark.parametrize("error", REFUSED, ids=["claude", "older claude", "words"])
def test_a_key_that_is_refused_in_a_turn(live: Live, error: dict[str, Any]) -> None:
    session = Answering(live, {"session/prompt": [{"error": error}, {}]}).new()
    failure = session.error("prompt", "hello", code=9)
    hint = "correct its API key, or log in: agh agent login answering"
    assert (failure["code"], failure["hint"]) == ("agent_needs_login", hint)
    (event,) = session.events("error")
    assert event.content["failure_kind"] == "provider_auth_failure"
    wait_until(lambda: session.status()["badge"] == "waiting-for-auth")
    session.prompt("again", "-o", "text")
    wait_until(lambda: session.status()["badge"] == "idle")


def test_a_login_of_an_mcp_server_is_another_thing(live: Live) -> None:
    error = {
        "code": -32603,
        "message": "Internal error",
        "data": {"details": "MCP server jira: 401 Unauthorized"},
    }
    session = Answering(live, {"session/prompt": {"error": error}}).new()
    assert session.error("prompt", "hello", code=1)["code"] == "turn_failed"
    assert session.markers() == ["mcp_auth_required"]
    wait_until(lambda: session.status()["badge"] == "idle")


@pytest.mark.parametrize(
    ("status", "login"),
    [
        (
            {"state": "authenticated", "accounts": [{"label": "Max", "active": True}, {"label": "Key"}]},
            "logged in: Max",
        ),
        ({"state": "authenticated"}, "logged in"),
        ({"state": "not_required"}, "no login is needed"),
        ({"state": "unknown"}, "the agent offers no login"),
    ],
)
def test_doctor_says_who_is_logged_in(live: Live, status: dict[str, Any], login: str) -> None:
    hello = {"protocolVersion": 1, "agentCapabilities": {"auth": {"status": {}}}}
    Answering(live, {"initialize": {"result": hello}, "auth/status": {"result": status}})
    assert f"login:              {login}\n" in live.agh("agent", "doctor", "answering").stdout


def test_doctor_of_an_agent_that_opens_sessions_for_nobody(live: Live) -> None:
    hello = {"protocolVersion": 1, "agentCapabilities": {"auth": {"status": {}}}, "authMethods": [AGENT]}
    state = {"result": {"state": "unauthenticated"}}
    Answering(live, {"initialize": {"result": hello}, "auth/status": state})
    error = agent_error(live, "doctor", "answering", code=9)
    assert (error["code"], error["hint"]) == ("agent_needs_login", "log in: agh agent login answering")
