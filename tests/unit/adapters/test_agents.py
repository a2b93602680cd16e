"""Agents: the built-in ones, the user's own in TOML files, and `agh agent list`, `show` and `doctor`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agh.adapters.agents import AgentRecord
from agh.adapters.builtin import AGENTS
from agh.adapters.restore import STRATEGIES
from tests.support.live import Live
from tests.support.resume import ECHO, define
from tests.support.wait import wait_until


def read(live: Live, *args: object, **options: Any) -> Any:
    (value,) = json.loads(live.agh(*args, "-o", "json", **options).stdout).values()
    return value


def listed(live: Live, **options: Any) -> dict[str, Any]:
    return {one["name"]: one for one in read(live, "agent", "list", **options)}


def failed(live: Live, *args: object, code: int, **options: Any) -> dict[str, Any]:
    done = live.agh(*args, "-o", "json", code=code, **options)
    assert done.stdout == ""
    found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])["error"]
    return found


def path_with(folder: Path, *programs: str) -> dict[str, str]:
    """A PATH that has only these."""
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
    names = [one["name"] for one in AGENTS]
    assert len(set(names)) == len(names)
    assert {
        *("claude", "codex", "gemini", "opencode", "copilot", "auggie", "amp", "qwen", "cursor", "goose"),
        *("kimi", "vibe", "pi", "kilo", "cline", "fast-agent", "openhands"),
    } <= set(names)
    known = {one.name for one in STRATEGIES}
    for one in AGENTS:
        made = AgentRecord(
            **{key: tuple(value) if isinstance(value, list) else value for key, value in one.items()}
        )
        assert made.title and made.login and made.install, made.name
        assert set(made.restore_skip) <= known
    assert "CLAUDECODE" in AGENTS[0]["drop_env"]


def test_installed_runnable_or_neither(live: Live, tmp_path: Path) -> None:
    env = path_with(tmp_path / "bin", "opencode", "npx")
    found = listed(live, env=env)
    assert (found["opencode"]["state"], found["opencode"]["command"]) == ("installed", ["opencode", "acp"])
    assert found["gemini"]["state"] == "runnable"
    by_npx = ["npx", "--prefix", os.path.expanduser("~"), "-y"]
    assert found["gemini"]["command"] == [*by_npx, "@google/gemini-cli", "--acp"]
    assert (found["goose"]["state"], found["goose"]["command"]) == ("not installed", None)
    bare = listed(live, env={"PATH": str(tmp_path)})
    assert {one["state"] for one in bare.values() if one["source"] == "built-in"} == {"not installed"}
    head, *rows = live.agh("agent", "list", env=env).stdout.splitlines()
    assert head.split() == ["AGENT", "STATE", "COMMAND", "FROM"]
    assert len(rows) == len(found)
    assert {rows[0].split()[0], rows[1].split()[0]} == {"opencode", "echo"}, "what is installed comes first"


def test_show_says_how_it_is_started_and_logged_in_to(live: Live) -> None:
    one = read(live, "agent", "show", "codex")
    assert one["argv"] == ["codex-acp"]
    assert one["login"] == "codex login"
    assert "npm install" in one["install"]
    shown = live.agh("agent", "show", "codex").stdout
    assert "codex login" in shown
    assert "codex-acp" in shown


@pytest.mark.parametrize("args", [("agent", "show"), ("agent", "doctor"), ("session", "new", "--agent")])
def test_an_unknown_name_is_guessed(live: Live, args: tuple[str, ...]) -> None:
    error = failed(live, *args, "cluade", code=4)
    assert (error["code"], error["hint"]) == ("agent_not_found", "did you mean claude?")
    assert failed(live, *args, "zzz", code=4)["hint"] == "agh agent list"
    assert live.sessions() == []


# The user's own.


def test_an_agent_of_the_users_own(live: Live) -> None:
    define(live, "mine", title="My agent", login="my login")
    one = listed(live)["mine"]
    assert (one["title"], one["state"], one["source"]) == (
        "My agent",
        "installed",
        str(live.home / "agents" / "mine.toml"),
    )
    assert read(live, "agent", "show", "mine") == one


def test_its_environment_is_what_the_file_says(live: Live) -> None:
    workspace_agent(
        live, "mine", f'argv = {json.dumps(ECHO)}\nenv = {{ COLOUR = "red" }}\ndrop_env = ["SECRET_PLAN"]\n'
    )
    done = live.agh(
        "session",
        "new",
        "--agent",
        "mine",
        env={"SECRET_PLAN": "x", "ANTHROPIC_API_KEY": "k", "COLOUR": "blue"},
    )
    session = live.session(done.stdout.strip())
    said = session.say("/env COLOUR\n/env SECRET_PLAN\n/env ANTHROPIC_API_KEY").splitlines()
    assert said == ["COLOUR=red", "SECRET_PLAN is not set", "ANTHROPIC_API_KEY=k"]
    assert session.meta()["agent_name"] == "mine"


def test_the_workspace_wins_over_the_home_and_both_over_plugins(live: Live) -> None:
    define(live, "mine", title="of the home")
    define(live, "echo", title="of the home")
    workspace_agent(live, "mine", 'argv = ["ours"]\ntitle = "of the workspace"\n')
    found = listed(live)
    assert (found["mine"]["title"], found["echo"]["title"]) == ("of the workspace", "of the home")
    assert read(live, "agent", "show", "mine")["title"] == "of the workspace"
    elsewhere = {"cwd": live.home}
    assert listed(live, **elsewhere)["mine"]["title"] == "of the home"
    assert read(live, "agent", "show", "mine", "--workspace", live.workspace, **elsewhere)["argv"] == ["ours"]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("argv = [", "mine.toml"),
        ('title = "no argv"', "an agent needs a name and an argv"),
        ("argv = []", "an agent needs a name and an argv"),
        ('argv = ["x"]\ncolour = "red"', "unknown key 'colour'; known are argv, "),
        ('argv = "x --acp"', "argv cannot be 'x --acp'"),
        ('argv = ["x"]\ntitle = 5', "title cannot be 5"),
        ('argv = ["x"]\nenv = ["A=1"]', "env cannot be"),
        ('argv = ["x"]\nquiet_after_load = "long"', "quiet_after_load cannot be 'long'"),
    ],
)
def test_a_broken_file_is_skipped_in_a_list_and_an_error_when_it_is_named(
    live: Live, toml: str, words: str
) -> None:
    workspace_agent(live, "mine", toml)
    done = live.agh("agent", "list")
    (warning,) = done.stderr.splitlines()
    assert words in warning
    assert "mine.toml" in warning
    assert warning.endswith("it is skipped")
    assert "claude" in done.stdout
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
    for one in listed(live).values():
        if one["source"] != "built-in":
            read(live, "agent", "show", one["name"])


def test_a_number_in_the_environment_is_refused_or_taken_as_text(live: Live) -> None:
    workspace_agent(live, "mine", f"argv = {json.dumps(ECHO)}\nenv = {{ PORT = 8080 }}\n")
    done = live.agh("session", "new", "--agent", "mine", code=None)
    assert done.returncode in (0, 2), done.stderr
    if done.returncode == 0:
        assert live.session(done.stdout.strip()).say("/env PORT") == "PORT=8080"
    else:
        assert "PORT" in done.stderr


# The doctor.


def gone(live: Live) -> None:
    wait_until(lambda: not live.processes(), 5, "the agent on trial is ended")


@pytest.mark.parametrize(
    ("options", "strategy"),
    [("", "native_resume"), ("--caps load,fork", "native_load"), ("--caps none", "inject_history")],
)
def test_an_agent_that_works(live: Live, options: str, strategy: str) -> None:
    one = read(live, "agent", "doctor", "echo", env={"AGH_ECHO_OPTIONS": options})
    gone(live)
    assert (one["name"], one["state"]) == ("echo", "works")
    assert one["restore_strategy"] == strategy
    assert one["capabilities"]["loadSession"] is (options != "--caps none")
    assert one["choices"] == {"model": ["small", "large"], "mode": ["ask", "code"]}
    assert one["protocol"] == 1
    assert one["version"].startswith("agh-echo ")
    assert one["initialize_ms"] >= 0 and one["session_new_ms"] >= 0
    assert live.sessions() == []


def test_the_doctor_speaks_to_people(live: Live) -> None:
    shown = live.agh("agent", "doctor", "echo").stdout
    assert "works" in shown
    assert "native_resume" in shown
    assert "small large" in shown
    gone(live)


def test_an_agent_that_wants_a_log_in(live: Live) -> None:
    define(live, "mine", "--auth-required", login="mine login --now")
    error = failed(live, "agent", "doctor", "mine", code=9)
    gone(live)
    assert error["code"] == "agent_needs_login"
    assert error["hint"] == "log in: mine login --now"
    assert error["details"]["methods"] == ["Echo log-in"]
    said = live.agh("agent", "doctor", "mine", code=9).stderr
    assert said.splitlines()[-1] == "hint: log in: mine login --now"
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
    one = read(live, "agent", "doctor", "--command", f"{sys.executable} -m agh_echo --caps load")
    assert one["restore_strategy"] == "native_load"
    assert (
        failed(live, "agent", "doctor", "--command", "no-such-agent --acp", code=9)["code"]
        == "agent_not_installed"
    )
    gone(live)


@pytest.mark.parametrize("options", ["--init-hang", "--bogus"])
def test_an_agent_that_does_not_work(live: Live, options: str) -> None:
    live.configure('[timeouts]\ninitialize = "1s"\n')
    done = live.agh("agent", "doctor", "echo", code=None, env={"AGH_ECHO_OPTIONS": options})
    assert done.returncode in (1, 3, 7)
    assert done.stdout == ""
    assert "echo" in done.stderr
    gone(live)


# The record.


def test_a_record_is_what_it_says(tmp_path: Path) -> None:
    one = AgentRecord("mine", ("mine", "--acp"), package="@me/mine", env={"A": "1"}, drop_env=("B",))
    assert one.environment({"A": "0", "B": "2", "C": "3"}) == {"A": "1", "C": "3"}
    assert one.command(path_with(tmp_path / "one")["PATH"]) is None
    by_npx = ["npx", "--prefix", os.path.expanduser("~"), "-y", "@me/mine", "--acp"]
    assert one.command(path_with(tmp_path / "two", "npx")["PATH"]) == by_npx
    assert one.command(path_with(tmp_path / "three", "npx", "mine")["PATH"]) == ["mine", "--acp"]
