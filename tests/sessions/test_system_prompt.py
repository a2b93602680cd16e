"""--system-prompt and --allowed-tools: given to the agent, remembered over every resume."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.resume import define

META = {
    "append_system_prompt": "systemPrompt.append",
    "system_prompt": "systemPrompt",
    "allowed_tools": "own.tools",
}


def in_meta(live: Live, *options: str, name: str = "mine") -> None:
    """An agent that takes our options in `_meta`."""
    define(live, name, *options)
    path = live.home / "agents" / f"{name}.toml"
    table = "".join(f'{key} = "{value}"\n' for key, value in META.items())
    path.write_text(path.read_text() + "[session_meta]\n" + table)


def new(live: Live, *args: object, code: int = 0) -> Session:
    return live.session(live.agh("session", "new", *args, code=code).stdout.strip())


def given(session: Session) -> Any:
    return json.loads(session.say("/given").removeprefix("given: "))


def test_by_the_capability_of_the_protocol_and_on_every_resume(live: Live) -> None:
    session = live.new("--system-prompt", args=("--append-system-prompt", "be brief"))
    asked = {"systemPrompt": {"mode": "append", "content": [{"type": "text", "text": "be brief"}]}}
    assert given(session) == asked
    session.stop()
    assert given(session) == asked
    session.stop()
    session.agh("resume", "--fresh")
    assert given(session) == asked
    assert session.meta()["system_prompt"] == {"mode": "append", "text": "be brief"}


@pytest.mark.parametrize(
    ("option", "sent"),
    [("--append-system-prompt", {"append": "be brief\n"}), ("--system-prompt", "be brief\n")],
)
def test_in_meta_from_a_file_by_load_and_by_fork(live: Live, option: str, sent: Any) -> None:
    in_meta(live, "--caps", "load,fork")
    (live.workspace / "style.md").write_text("be brief\n")
    session = new(live, "--agent", "mine", option, "@style.md")
    assert given(session) == {"_meta": {"systemPrompt": sent}}
    session.stop()
    session.agh("resume")
    assert session.meta()["restore"]["strategy"] == "native_load"
    assert given(session) == {"_meta": {"systemPrompt": sent}}
    copy = live.session(session.agh("fork").stdout.strip())
    assert copy.meta()["restore"]["strategy"] == "native_fork"
    assert given(copy) == {"_meta": {"systemPrompt": sent}}


def test_an_agent_that_takes_none_is_a_clear_error_and_leaves_nothing(live: Live) -> None:
    for command in (("session", "new"), ("run", "hello"), ("session", "ensure", "--name", "x")):
        result = live.agh(*command, "--agent", "echo", "--system-prompt", "be brief", "-o", "json", code=2)
        error = json.loads(result.stderr)["error"]
        assert (error["code"], error["message"]) == (
            "system_prompt_refused",
            "agent echo does not accept a system prompt",
        )
    for args in (
        ("--system-prompt", "a", "--append-system-prompt", "b"),
        ("--system-prompt", " "),
        ("--system-prompt", "@/no/such/file"),
    ):
        live.agh("session", "new", "--agent", "echo", *args, code=2)
    assert live.sessions() == []


def test_handed_to_an_agent_that_takes_none_it_goes_on_without_and_says_so(live: Live) -> None:
    in_meta(live)
    session = new(live, "--agent", "mine", "--system-prompt", "be brief")
    session.tell("remember me")
    session.stop()
    result = session.agh("resume", "--agent", "echo")
    assert result.stderr.startswith(
        "handed over from mine to echo, which does not accept a system prompt; the agent gets"
    )
    (warning,) = session.events("runtime_warning")
    assert "does not accept a system prompt; the session continues without it" in warning.content["text"]
    assert session.meta()["system_prompt"] is None


def asked(session: Session, *steps: str) -> list[str]:
    """Return what the agent is told, each by whom it was decided."""
    session.prompt("\n".join(steps), "--no-ask")
    return [who for (who,) in session.fetch("SELECT decided_by FROM permissions ORDER BY rowid")]


def test_allowed_tools_are_not_asked_for(live: Live) -> None:
    session = live.new(args=("--allowed-tools", "edit,execute(git *)", "--permissions", "deny-all"))
    steps = (
        "/ask kind=edit path=a.txt",
        "/ask kind=edit path=/outside.txt",
        "/ask kind=delete path=a.txt",
        "/write made.txt x",
        "/run git --version",
        "/run echo no",
        "/run git --version; echo no",
    )
    expected = ["allowed_tools", "mode", "mode", "allowed_tools", "allowed_tools", "mode", "mode"]
    assert asked(session, *steps) == expected, (
        "deny-all but these, inside the workspace; agh looks into sh -c"
    )
    assert (live.workspace / "made.txt").read_text() == "x"
    session.stop()
    assert asked(session, *steps) == expected * 2, "also after a resume"
    assert session.meta()["allowed_tools"] == ["edit", "execute(git *)"]


def test_a_rule_comes_before_allowed_tools(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'deny'\npath = 'secrets/*'")
    in_meta(live)
    session = new(live, "--agent", "mine", "--allowed-tools", "edit,Read")
    assert asked(session, "/ask kind=edit path=secrets/key", "/ask kind=edit path=a.txt") == [
        "rule",
        "allowed_tools",
    ]
    assert given(session) == {}, "an agent that does not ask cannot be told no"


def test_the_agents_own_option(live: Live) -> None:
    in_meta(live)
    session = new(live, "--agent", "mine", "--allowed-tools", "edit, Read,Bash(git log:*)")
    assert given(session) == {"_meta": {"own": {"tools": ["Read", "Bash(git log:*)"]}}}


def test_what_is_no_tool_is_refused(live: Live) -> None:
    for value in ("edit(", "a b", "edit,)"):
        result = live.agh("session", "new", "--agent", "echo", "--allowed-tools", value, code=2)
        assert result.stderr.startswith("agh: --allowed-tools: "), result.stderr
    assert live.sessions() == []


def test_max_turns_of_a_run(live: Live) -> None:
    result = live.agh("run", "--agent", "echo", "hello", "--max-turns", "1", "-o", "text")
    assert result.stdout == "echo: hello\n"
    (session,) = live.sessions()
    assert session.error("prompt", "more", code=6)["code"] == "limit_reached"
