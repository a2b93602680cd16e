"""Agents: the built-in ones, the user's own in TOML files, and `agh agent list`, `show` and `doctor`."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from agh.adapters.agents import AgentRecord
from agh.adapters.builtin import AGENTS
from agh.adapters.restore import STRATEGIES
from tests.support.live import ECHO, Live
from tests.support.resume import define
from tests.support.wait import wait_until


def read(live: Live, *args: object, **options: Any) -> Any:
    (value,) = json.loads(live.agh(*args, "-o", "json", **options).stdout).values()
    return value


def listed(live: Live, **options: Any) -> dict[str, Any]:
    return {one["name"]: one for one in read(live, "agent", "list", **options)}


def failed(live: Live, *args: object, code: int, **options: Any) -> dict[str, Any]:
    result = live.agh(*args, "-o", "json", code=code, **options)
    assert result.stdout == ""
    error: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])["error"]
    return error


def path_with(folder: Path, *programs: str) -> dict[str, str]:
    """Return a PATH that has only these."""
    folder.mkdir()
    for name in programs:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def workspace_agent(live: Live, name: str, toml: str) -> None:
    live.trust()
    folder = live.workspace / ".agh" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(toml)


# The built-in ones.


def test_the_agents_of_the_field_notes_are_there() -> None:
    names = [agent["name"] for agent in AGENTS]
    assert len(set(names)) == len(names)
    assert {
        *("claude", "codex", "gemini", "opencode", "copilot", "auggie", "amp", "qwen", "cursor", "goose"),
        *("kimi", "vibe", "pi", "kilo", "cline", "fast-agent", "openhands"),
    } <= set(names)
    earlier = {one.name for one in STRATEGIES}
    for agent in AGENTS:
        record = AgentRecord(
            **{key: tuple(value) if isinstance(value, list) else value for key, value in agent.items()}
        )
        assert record.title and record.login and record.install, record.name
        assert set(record.restore_skip) <= earlier
    assert "CLAUDECODE" in AGENTS[0]["drop_env"]


def test_installed_runnable_or_neither(live: Live, tmp_path: Path) -> None:
    env = path_with(tmp_path / "bin", "opencode", "npx")
    agents = listed(live, env=env)
    assert (agents["opencode"]["state"], agents["opencode"]["command"]) == ("installed", ["opencode", "acp"])
    assert agents["gemini"]["state"] == "runnable"
    by_npx = ["npx", "--prefix", os.path.expanduser("~"), "-y"]
    assert agents["gemini"]["command"] == [*by_npx, "@google/gemini-cli", "--acp"]
    assert (agents["goose"]["state"], agents["goose"]["command"]) == ("not installed", None)
    bare = listed(live, env={"PATH": str(tmp_path)})
    assert {value["state"] for value in bare.values() if value["source"] == "built-in"} == {"not installed"}
    head, *rows = live.agh("agent", "list", env=env).stdout.splitlines()
    assert head.split() == ["AGENT", "STATE", "VERSION", "COMMAND", "FROM"]
    assert len(rows) == len(agents)
    assert {rows[0].split()[0], rows[1].split()[0]} == {"opencode", "echo"}, "what is installed comes first"


def test_show_says_how_it_is_started_and_logged_in_to(live: Live) -> None:
    agent = read(live, "agent", "show", "codex")
    assert agent["argv"] == ["codex-acp"]
    assert agent["login"] == "codex login"
    assert "npm install" in agent["install"]
    printed = live.agh("agent", "show", "codex").stdout
    assert "codex login" in printed
    assert "codex-acp" in printed


@pytest.mark.parametrize("args", [("agent", "show"), ("agent", "doctor"), ("session", "new", "--agent")])
def test_an_unknown_name_is_guessed(live: Live, args: tuple[str, ...]) -> None:
    error = failed(live, *args, "cluade", code=4)
    assert (error["code"], error["hint"]) == ("agent_not_found", "did you mean claude?")
    assert failed(live, *args, "zzz", code=4)["hint"] == "agh agent list; agh agent search zzz"
    assert live.sessions() == []


# The user's own.


def test_an_agent_of_the_users_own(live: Live) -> None:
    define(live, "mine", title="My agent", login="my login")
    mine = listed(live)["mine"]
    assert (mine["title"], mine["state"], mine["source"]) == (
        "My agent",
        "installed",
        str(live.home / "agents" / "mine.toml"),
    )
    assert read(live, "agent", "show", "mine") == mine


def test_its_environment_is_what_the_file_says(live: Live) -> None:
    workspace_agent(
        live, "mine", f'argv = {json.dumps(ECHO)}\nenv = {{ COLOUR = "red" }}\ndrop_env = ["SECRET_PLAN"]\n'
    )
    result = live.agh(
        "session",
        "new",
        "--agent",
        "mine",
        env={"SECRET_PLAN": "x", "ANTHROPIC_API_KEY": "k", "COLOUR": "blue"},
    )
    session = live.session(result.stdout.strip())
    lines = session.say("/env COLOUR\n/env SECRET_PLAN\n/env ANTHROPIC_API_KEY").splitlines()
    assert lines == ["COLOUR=red", "SECRET_PLAN is not set", "ANTHROPIC_API_KEY=k"]
    assert session.meta()["agent_name"] == "mine"


def test_the_home_wins_over_the_workspace_and_both_over_plugins(live: Live) -> None:
    define(live, "mine", title="of the home")
    define(live, "echo", title="of the home")
    for name in ("mine", "more", "codex"):
        workspace_agent(live, name, 'argv = ["ours"]\ntitle = "of the workspace"\n')
    titles = {name: row["title"] for name, row in listed(live).items()}
    assert [titles[name] for name in ("mine", "echo")] == ["of the home"] * 2
    assert [titles[name] for name in ("more", "codex")] == ["of the workspace"] * 2
    assert read(live, "agent", "show", "more")["title"] == "of the workspace"
    elsewhere = {"cwd": live.home}
    assert "more" not in listed(live, **elsewhere)
    assert read(live, "agent", "show", "more", "--workspace", live.workspace, **elsewhere)["argv"] == ["ours"]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("argv = [", "mine.toml"),
        ('title = "no argv"', "argv is missing or empty"),
        ("argv = []", "argv is missing or empty"),
        ('argv = ["x"]\ncolour = "red"', "unknown key 'colour'; allowed: argv, "),
        ('argv = "x --acp"', "argv must be a list of strings, not 'x --acp'"),
        ('argv = ["x"]\ntitle = 5', "title must be a string, not 5"),
        ('argv = ["x"]\nenv = ["A=1"]', "env must be a table, not "),
        ('argv = ["x"]\nquiet_after_load = "long"', "quiet_after_load must be a number, not 'long'"),
        ('argv = ["x"]\nerror_log = "("', "error_log must be a regular expression with a capture group"),
        ('argv = ["x"]\nerror_log = "limit"', "error_log must be a regular expression with a capture group"),
    ],
)
def test_a_broken_file_is_skipped_in_a_list_and_an_error_when_it_is_named(
    live: Live, toml: str, words: str
) -> None:
    workspace_agent(live, "mine", toml)
    result = live.agh("agent", "list")
    (warning,) = result.stderr.splitlines()
    assert words in warning
    assert "mine.toml" in warning
    assert warning.endswith("this agent is skipped")
    assert "claude" in result.stdout
    error = failed(live, "agent", "show", "mine", code=2)
    assert error["code"] == "agent_invalid"
    assert words in error["message"]


def test_a_broken_file_is_an_error_for_a_new_session_and_nothing_to_another(live: Live) -> None:
    workspace_agent(live, "mine", "argv = [")
    assert failed(live, "session", "new", "--agent", "mine", code=2)["code"] == "agent_invalid"
    assert live.sessions() == []
    assert live.agh("session", "new", "--agent", "echo").stderr == ""


def test_a_name_of_the_users_own_is_guessed_too(live: Live) -> None:
    define(live, "zebrabot")
    assert failed(live, "agent", "show", "zebrabto", code=4)["hint"] == "did you mean zebrabot?"


def test_the_doctor_knows_the_agents_of_the_workspace(live: Live) -> None:
    workspace_agent(live, "mine", f"argv = {json.dumps(ECHO)}\n")
    assert read(live, "agent", "doctor", "mine")["state"] == "works"


def test_whatever_is_listed_can_be_named(live: Live) -> None:
    workspace_agent(live, "mine", 'argv = ["x"]\nname = "other"\n')
    for value in listed(live).values():
        if value["source"] != "built-in":
            read(live, "agent", "show", value["name"])


def test_a_number_in_the_environment_is_refused_or_taken_as_text(live: Live) -> None:
    workspace_agent(live, "mine", f"argv = {json.dumps(ECHO)}\nenv = {{ PORT = 8080 }}\n")
    result = live.agh("session", "new", "--agent", "mine", code=None)
    assert result.returncode in (0, 2), result.stderr
    if result.returncode == 0:
        assert live.session(result.stdout.strip()).say("/env PORT") == "PORT=8080"
    else:
        assert "PORT" in result.stderr


# The doctor.


def gone(live: Live) -> None:
    wait_until(lambda: not live.processes(), what="the agent on trial is ended")


@pytest.mark.parametrize(
    ("options", "strategy"),
    [("", "native_resume"), ("--caps load,fork", "native_load"), ("--caps none", "inject_history")],
)
def test_an_agent_that_works(live: Live, options: str, strategy: str) -> None:
    agent = read(live, "agent", "doctor", "echo", env={"AGH_ECHO_OPTIONS": options})
    gone(live)
    assert (agent["name"], agent["state"]) == ("echo", "works")
    assert agent["restore_strategy"] == strategy
    assert agent["capabilities"]["loadSession"] is (options != "--caps none")
    assert agent["choices"] == {"model": ["small", "large"], "mode": ["ask", "code"]}
    assert agent["protocol"] == 1
    assert agent["version"].startswith("agh-echo ")
    assert agent["initialize_ms"] >= 0 and agent["session_new_ms"] >= 0
    assert live.sessions() == []


def test_the_doctor_speaks_to_people(live: Live) -> None:
    printed = live.agh("agent", "doctor", "echo").stdout
    assert "works" in printed
    assert "native_resume" in printed
    assert "small large" in printed
    gone(live)


def test_an_agent_that_wants_a_log_in(live: Live) -> None:
    define(live, "mine", "--auth-required", login="mine login --now")
    error = failed(live, "agent", "doctor", "mine", code=9)
    gone(live)
    assert error["code"] == "agent_needs_login"
    assert error["hint"] == "log in: agh agent login mine"
    assert error["details"]["methods"] == ["echo-login (agent): Echo log-in"]
    printed = live.agh("agent", "doctor", "mine", code=9).stderr
    assert printed.splitlines()[-1] == "hint: log in: agh agent login mine"
    bare = failed(live, "agent", "doctor", "echo", code=9, env={"AGH_ECHO_OPTIONS": "--auth-required"})
    assert "log in" in bare["hint"]


def test_an_agent_that_is_not_installed(live: Live, tmp_path: Path) -> None:
    env = path_with(tmp_path / "bin")
    error = failed(live, "agent", "doctor", "codex", code=9, env=env)
    assert error["code"] == "agent_not_installed"
    assert error["hint"] == "install it: npm install -g @agentclientprotocol/codex-acp"
    new = failed(live, "session", "new", "--agent", "codex", code=9, env=env)
    assert (new["code"], new["hint"]) == (error["code"], error["hint"])


def test_an_agent_that_nobody_knows_how_to_install(live: Live) -> None:
    define(live, "mine", argv=["no-such-agent"])
    hint = failed(live, "agent", "doctor", "mine", code=9)["hint"]
    assert hint == "agh agent list"


def test_any_program_can_be_tried(live: Live) -> None:
    agent = read(live, "agent", "doctor", "--command", f"{sys.executable} -m agh_echo --caps load")
    assert agent["restore_strategy"] == "native_load"
    assert (
        failed(live, "agent", "doctor", "--command", "no-such-agent --acp", code=9)["code"]
        == "agent_not_installed"
    )
    gone(live)


@pytest.mark.parametrize("options", ["--init-hang", "--bogus"])
def test_an_agent_that_does_not_work(live: Live, options: str) -> None:
    live.configure('[timeouts]\ninitialize = "1s"\n')
    result = live.agh("agent", "doctor", "echo", code=None, env={"AGH_ECHO_OPTIONS": options})
    assert result.returncode in (1, 3, 7)
    assert result.stdout == ""
    assert "echo" in result.stderr
    gone(live)


# The record.


def test_a_record_is_what_it_says(tmp_path: Path) -> None:
    record = AgentRecord("mine", ("mine", "--acp"), package="@me/mine", env={"A": "1"}, drop_env=("B",))
    assert record.environment({"A": "0", "B": "2", "C": "3"}) == {"A": "1", "C": "3"}
    assert record.command(path_with(tmp_path / "one")["PATH"]) is None
    by_npx = ["npx", "--prefix", os.path.expanduser("~"), "-y", "@me/mine", "--acp"]
    assert record.command(path_with(tmp_path / "two", "npx")["PATH"]) == by_npx
    assert record.command(path_with(tmp_path / "three", "npx", "mine")["PATH"]) == ["mine", "--acp"]


# Files that extend a record, and pins.


def home_agent(live: Live, name: str, toml: str) -> None:
    folder = live.home / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(toml)


def test_a_file_may_extend_an_agent(live: Live) -> None:
    home_agent(live, "auggie", 'extends = "auggie"\npermissions = "deny-all"\n[env]\nMINE = "1"\n')
    home_agent(live, "fast-claude", 'extends = "claude"\nargv = ["claude-agent-acp", "--fast"]\n')
    rows = listed(live)
    assert rows["auggie"]["argv"] == ["auggie", "--acp"]
    assert rows["auggie"]["env"] == {"AUGMENT_DISABLE_AUTO_UPDATE": "1", "MINE": "1"}
    assert rows["auggie"]["permissions"] == "deny-all"
    assert rows["fast-claude"]["argv"] == ["claude-agent-acp", "--fast"]
    assert rows["fast-claude"]["drop_env"] == ["CLAUDECODE"]
    assert rows["claude"]["argv"] == ["claude-agent-acp"]


def test_a_file_that_extends_nothing_is_an_error(live: Live) -> None:
    home_agent(live, "mine", 'extends = "nobody"\n')
    assert "nobody" in failed(live, "agent", "show", "mine", code=2)["message"]


@pytest.mark.parametrize(
    "pin",
    [
        'via = "pip"\nversion = "1"',
        'via = "npx"\nversion = "1"',
        'via = "npx"\npackage = "-c"\nversion = "1"',
        'via = "binary"\nversion = "1"',
        'via = "npx"\npackage = "a@1"',
        'via = "npx"\npackage = "a@1"\nversion = 1',
    ],
)
def test_a_pin_that_cannot_be_run_is_an_error(live: Live, pin: str) -> None:
    home_agent(live, "mine", f'argv = ["a"]\n[pin]\n{pin}\n')
    assert "pin: " in failed(live, "agent", "show", "mine", code=2)["message"]


@pytest.mark.parametrize(
    ("pin", "command"),
    [
        ('via = "npx"\npackage = "a@1"', ["npx", "--prefix", "~", "-y", "a@1", "--acp"]),
        (
            'via = "npx"\npackage = "a@1"\ncommand = "b"',
            ["npx", "--prefix", "~", "-y", "--package", "a@1", "--", "b", "--acp"],
        ),
        ('via = "uvx"\npackage = "a==1"', ["uvx", "a==1", "--acp"]),
        ('via = "uvx"\npackage = "a==1"\ncommand = "b"', ["uvx", "--from", "a==1", "b", "--acp"]),
        ('via = "binary"\npath = "/bin/sh"', ["/bin/sh", "--acp"]),
        ('via = "npx"\npackage = "a@1"\npath = "/bin/sh"', ["/bin/sh", "--acp"]),
    ],
)
def test_a_pin_is_run_whatever_is_on_the_path(
    live: Live, tmp_path: Path, pin: str, command: list[str]
) -> None:
    home_agent(live, "mine", f'argv = ["a", "--acp"]\n[pin]\nversion = "1"\n{pin}\n')
    row = listed(live, env=path_with(tmp_path / "bin", "a", "npx", "uvx"))["mine"]
    assert row["command"] == [os.path.expanduser("~") if word == "~" else word for word in command]
    assert row["state"] == "installed"
    bare = listed(live, env={"PATH": str(tmp_path)})["mine"]
    assert bare["state"] == ("installed" if "path" in pin else "not installed")


def test_a_python_package_is_run_with_uvx(live: Live, tmp_path: Path) -> None:
    row = listed(live, env=path_with(tmp_path / "bin", "uvx"))["vibe"]
    assert (row["state"], row["command"]) == ("runnable", ["uvx", "--from", "mistral-vibe", "vibe-acp"])


def test_the_log_of_opencode_is_read_for_the_conversation_and_not_for_its_title() -> None:
    """The line is what opencode 1.18 writes when its provider refuses a request for good."""
    (record,) = [agent for agent in AGENTS if agent["name"] == "opencode"]
    words = "5-hour usage limit reached. Resets in 2 hours. To continue using this model now, enable usage"
    line = (
        'timestamp=2026-11-17T18:17:50.597Z level=ERROR run=04a5bad9 message="stream error" providerID=go '
        f'modelID=m session.id=s1 small=false agent=build mode=x error.error="AI_APICallError: {words}"'
    )
    match = re.search(str(record["error_log"]), line)
    assert match is not None and match[1] == words
    assert re.search(str(record["error_log"]), line.replace("small=false", "small=true")) is None
