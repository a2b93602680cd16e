"""`agh session new`"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support.files import modes
from tests.support.live import ECHO, Live
from tests.support.processes import is_alive, open_files
from tests.support.site import Site
from tests.support.wait import wait_until


@pytest.fixture(autouse=True)
def by_the_program(live: Live) -> None:
    """Let the program create sessions, since it starts their keepers ahead."""
    live.by_exec = True


def test_prints_the_id_of_a_session_that_stays_live(live: Live) -> None:
    result = live.agh("session", "new", "--agent", "echo")
    session = live.session(result.stdout.strip())
    assert result.stdout == f"{session.id}\n"
    assert is_alive(session.keeper)
    assert is_alive(session.agent)
    meta = session.meta()
    assert (meta["state"], meta["agent_name"], meta["turns"]) == ("active", "echo", 0)
    assert meta["workspace_path"] == str(live.workspace)
    assert meta["acp_session_id"]
    assert meta["acp_session_ids"] == [meta["acp_session_id"]]
    assert meta["keeper"]["pid"] == session.keeper


def test_json_is_the_session(live: Live) -> None:
    result = live.agh("session", "new", "--agent", "echo", "--name", "fix-login", "-o", "json")
    (noun,) = json.loads(result.stdout)
    view = json.loads(result.stdout)["session"]
    assert noun == "session"
    assert view["name"] == "fix-login"
    assert (view["state"], view["phase"], view["badge"]) == ("active", "idle", "idle")
    assert view["attachable"] is True
    assert live.agh("session", "status", "fix-login", "-o", "json").stdout != ""


def test_says_that_it_runs_the_embedded_agent_when_none_was_asked_for(live: Live) -> None:
    result = live.agh("session", "new", env={"PATH": "/usr/bin:/bin"})
    assert "echo agent" in result.stderr
    assert live.session(result.stdout.strip()).meta()["agent_name"] == "echo"


def test_the_workspace_is_the_agents_directory(live: Live, tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    session = live.new(args=("--workspace", place))
    assert session.tell("/cwd") == f"cwd: {place} (process: {place})"


def test_a_workspace_that_is_not_there_is_refused_and_leaves_nothing(live: Live, tmp_path: Path) -> None:
    result = live.agh("session", "new", "--agent", "echo", "--workspace", tmp_path / "none", code=4)
    assert str(tmp_path / "none") in result.stderr
    assert live.sessions() == []


def test_bad_input_is_a_usage_error_and_leaves_nothing(live: Live) -> None:
    for option, value in (
        ("--command", ""),
        ("--command", "'open"),
        ("--permissions", "all"),
        ("--name", "sess-x"),
        ("--name", ""),
    ):
        result = live.agh("session", "new", option, value, code=2, by_exec=option == "--permissions")
        assert result.stderr.startswith("agh: ")
    live.agh("session", "new", "--agent", "nobody", code=4)
    assert live.sessions() == []


def test_a_command_that_cannot_be_started(live: Live) -> None:
    result = live.agh("session", "new", "--command", "/no/such/program --acp", "-o", "json", code=9)
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "agent_not_installed"
    assert "/no/such/program" in error["message"]
    assert "there is no file" in error["message"]
    wait_until(lambda: not live.processes())
    (session,) = live.sessions()
    assert (session.meta()["state"], session.meta()["failure"]["kind"]) == ("stopped", "startup_failure")


def test_a_program_that_is_no_agent_fails_with_its_last_words(live: Live) -> None:
    result = live.agh("session", "new", "--command", "sh -c 'echo not today >&2; exit 3'", code=7)
    assert "exited with code 3" in result.stderr
    assert "not today" in result.stderr


def test_an_agent_that_wants_a_log_in(live: Live) -> None:
    result = live.agh(
        "session", "new", "--agent", "echo", env={"AGH_ECHO_OPTIONS": "--auth-required"}, code=9
    )
    assert "Authentication required" in result.stderr
    (session,) = live.sessions()
    assert session.meta()["failure"]["kind"] == "provider_auth_failure"
    wait_until(lambda: not session.is_live())


def test_a_name_can_be_taken_once(live: Live) -> None:
    session = live.new(args=("--name", "mine"))
    result = live.agh("session", "new", "--agent", "echo", "--name", "mine", "-o", "json", code=6)
    assert json.loads(result.stderr)["error"]["code"] == "name_taken"
    assert session.id in result.stderr
    assert [each.id for each in live.sessions()] == [session.id]


def test_the_environment_reaches_the_agent_and_the_lock_does_not(live: Live) -> None:
    session = live.new(env={"ANTHROPIC_API_KEY": "sk-for-the-agent"})
    assert session.tell("/env ANTHROPIC_API_KEY") == "ANTHROPIC_API_KEY=sk-for-the-agent"
    below = [session.leash, session.agent]
    files = [path for pid in below for path in open_files(pid)]
    assert files and not [path for path in files if path.startswith(str(live.home))]


def test_everything_is_private_whatever_the_umask(live: Live) -> None:
    before = os.umask(0)
    try:
        session = live.new()
        session.tell("hello")
        session.agh("resume")
        modes_by_path = modes(live.home)
        session.prompt("/crash", code=7)
        wait_until(lambda: not session.is_live())
        modes_by_path |= modes(live.home)
    finally:
        os.umask(before)
    assert {path.name for path in modes_by_path} >= {
        "meta.json",
        "events.db",
        "lock",
        "keeper.sock",
        "keeper.log",
    }
    assert any(path.parent.name == "crash-bundles" for path in modes_by_path)
    wrong = [
        f"{path} {mode:o}"
        for path, mode in modes_by_path.items()
        if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    ]
    assert wrong == []


def test_a_wrapped_agent_starts_and_talks(live: Live) -> None:
    session = live.new("--wrapper")
    assert session.say("hello") == "echo: hello"
    assert session.meta()["command"] == [*ECHO, "--wrapper"]


def test_a_limit_below_nothing_is_refused(live: Live) -> None:
    for option, value in (
        ("--max-cost", "-1"),
        ("--max-cost", "nan"),
        ("--max-cost", "inf"),
        ("--max-turns", "-1"),
        ("--max-time", "-1s"),
    ):
        live.agh("session", "new", "--agent", "echo", option, value, code=2, by_exec=value == "nan")
    assert live.sessions() == []
    session = live.new(args=("--max-cost", "0", "--max-turns", "0"))
    session.agh("resume", "--max-cost", "-1", code=2)
    assert session.is_live()


def test_a_registered_workspace_by_its_name(live: Live, tmp_path: Path) -> None:
    place = tmp_path / "shop"
    place.mkdir()
    workspace = json.loads(live.agh("workspace", "add", place, "-o", "json").stdout)["workspace"]
    by_name = live.new(args=("--workspace", "shop"))
    by_path = live.new(args=("--workspace", place))
    for session in (by_name, by_path):
        assert (session.meta()["workspace_id"], session.meta()["workspace_path"]) == (
            workspace["id"],
            str(place),
        )
    by_name.tell("hello")
    event = json.loads(by_name.agh("events", "--last", "1").stdout)
    assert (event["workspace_id"], event["workspace_path"]) == (workspace["id"], str(place))
    for session in (by_name, by_path):
        session.stop()
    place.rmdir()
    result = live.agh("session", "new", "--agent", "echo", "--workspace", "shop", "-o", "json", code=4)
    assert json.loads(result.stderr)["error"]["code"] == "workspace_gone"


def test_a_plugin_that_cannot_be_loaded_is_in_the_keepers_log(live: Live, tmp_path: Path) -> None:
    """Though the keeper loads plugins before it has a log."""
    site = Site(tmp_path / "site", tmp_path)
    site.add("broken", "raise ValueError('no good')")
    session = live.new(env={"PYTHONPATH": str(site.path)})
    log = (session.directory / "keeper.log").read_text()
    assert log.count("plugin broken (agh_broken-1.0) is skipped: ValueError: no good\n") == 1
