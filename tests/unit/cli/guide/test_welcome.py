"""The first five minutes: what someone sees who has nothing yet."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from agh.adapters.agents import AgentRecord
from agh.cli.guide.welcome import words
from tests.support.build import Home
from tests.support.program import AGH, Agh
from tests.support.terminal import read_to_end, run_on_terminal

GREETING = "There are no sessions yet"
COMMANDS = [[], ["session", "list"], ["session", "list", "--all"]]


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_on_a_terminal(home: Home, args: list[str]) -> None:
    code, printed = run_on_terminal(*args)
    assert code == 0
    assert f"{GREETING}; they will be kept in {home.path}." in printed
    assert "agh new --name first" in printed
    assert not home.path.exists()


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_never_in_a_pipe(agh: Agh, home: Home, args: list[str]) -> None:
    result = agh(*args)
    assert GREETING not in result.stdout + result.stderr


def test_never_in_data(home: Home) -> None:
    """stderr is a terminal, stdout is not."""
    ours, theirs = pty.openpty()
    argv = [AGH, "session", "list", "-o", "json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        text = read_to_end(ours).decode()
        os.close(ours)
        out, _ = process.communicate(timeout=20)
    assert json.loads(out) == {"sessions": []}
    assert text == ""


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_not_to_someone_who_has_sessions(home: Home, args: list[str]) -> None:
    home.session()
    assert GREETING not in run_on_terminal(*args)[1]


def test_a_home_that_is_not_private_does_not_spoil_the_help(home: Home) -> None:
    home.session()
    home.path.chmod(0o777)
    code, printed = run_on_terminal()
    assert code == 0
    assert "Usage: agh" in printed
    assert GREETING not in printed


def test_a_home_that_cannot_be_read_does_not_spoil_the_help(home: Home) -> None:
    home.path.mkdir(mode=0o700)
    (home.path / "sessions").write_text("not a directory")
    code, printed = run_on_terminal()
    assert code == 0
    assert "Usage: agh" in printed
    assert "Traceback" not in printed


def agent(name: str, program: str, package: str = "") -> AgentRecord:
    return AgentRecord(name, (program,), package=package, install=f"get {name}")


def test_which_agents_were_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("here", "npx", "echo-agent"):
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    echo = agent("echo", "echo-agent")
    greeting = words(
        [agent("one", "here"), agent("two", "gone", "two-package"), agent("three", "gone"), echo]
    )
    assert "Agents found: one.\n" in greeting
    assert "npx can run: two.\n" in greeting
    assert "echo" not in greeting
    alone = words([agent("three", "gone"), echo])
    assert "agh uses the built-in echo agent, which repeats your prompt" in alone
    assert "  get three\n" in alone
    assert "No agent is installed. Install one, for example:\n  get three\n" in words(
        [agent("three", "gone")]
    )
    assert "No agent is installed." in words([])
