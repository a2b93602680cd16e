"""A workspace's `.agh/` is used as it was when the user trusted it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.live import ECHO, Live
from tests.support.permissions import answers, outcomes
from tests.support.program import in_process
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

DENY = "[[permissions.rules]]\ndecision = 'deny'\npath = 'a.txt'\n"
HOOK = '[[hooks]]\nevent = "session_start"\nmode = "sync"\ncommand = ".agh/hook.sh"\n'


def plant(live: Live, settings: str = DENY, **files: str) -> Path:
    folder = live.workspace / ".agh"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(settings)
    for name, text in files.items():
        (folder / f"{name}.sh").write_text(text)
        (folder / f"{name}.sh").chmod(0o755)
    return folder


def state(live: Live) -> str:
    return str(json.loads(live.agh("workspace", "show", "-o", "json").stdout)["workspace"]["trust"])


def trust(live: Live, *args: str, code: int = 0) -> str:
    """Run `workspace trust` in this process, which it does not matter to; return its errors."""
    result = in_process("workspace", "trust", *args, cwd=live.workspace)
    assert result.returncode == code, result
    return str(result.stderr)


def denies(live: Live) -> bool:
    """Tell whether the workspace's rule is used by a new session."""
    session = live.new(args=("--permissions", "approve-all"))
    is_denied = answers(session.tell("/ask path=a.txt")) == ["reject_once"]
    session.stop()
    return is_denied


def test_trust_shows_and_stores_and_untrust_forgets(live: Live) -> None:
    assert state(live) == "none"
    plant(live)
    assert (state(live), denies(live)) == ("untrusted", False)
    process = live.agh("workspace", "trust", "--yes", "-o", "json")
    assert "config.toml is new" in process.stderr and "+path = 'a.txt'" in process.stderr
    row = json.loads(process.stdout)["workspace"]
    assert row["trust"] == "trusted" and len(row["sha256"]) == 64
    assert (state(live), denies(live)) == ("trusted", True)
    live.agh("workspace", "untrust")
    assert (state(live), denies(live)) == ("untrusted", False)
    assert list((live.home / "trusted").iterdir()) == []


@pytest.mark.parametrize("change", ["another rule", "no file", "no folder", "a link"])
def test_the_trusted_copy_stays_in_force(live: Live, tmp_path: Path, change: str) -> None:
    folder = plant(live)
    trust(live, "--yes")
    if change == "another rule":
        (folder / "config.toml").write_text("[permissions]\nmode = 'approve-all'\n")
    elif change == "a link":
        folder.rename(tmp_path / "moved")
        folder.symlink_to(tmp_path / "moved")
        (tmp_path / "moved" / "config.toml").write_text("")
    else:
        (folder / "config.toml").unlink()
        if change == "no folder":
            folder.rmdir()
    assert state(live) == "changed"
    process = live.agh("session", "new", "--agent", "echo", "--permissions", "approve-all")
    (line,) = process.stderr.splitlines()
    assert line == (
        ".agh/ has changed since you trusted it; the trusted copy is used; review it again: "
        f"agh workspace trust {live.workspace}"
    )
    session = live.session(process.stdout.strip())
    assert session.status()["workspace_trust"] == "changed"
    assert answers(session.tell("/ask path=a.txt")) == ["reject_once"]


def test_the_difference_is_shown_and_trusted(live: Live) -> None:
    plant(live)
    trust(live, "--yes")
    plant(live, DENY.replace("a.txt", "b.txt"))
    difference = trust(live, "--yes")
    assert "-path = 'a.txt'" in difference and "+path = 'b.txt'" in difference
    assert (state(live), denies(live)) == ("trusted", False)
    assert len(list((live.home / "trusted").iterdir())) == 1


def test_nothing_asks_in_a_pipe(live: Live) -> None:
    plant(live)
    process = live.agh("workspace", "trust", code=2)
    assert "nothing was trusted" in process.stderr and "--yes" in process.stderr
    assert state(live) == "untrusted"


@pytest.mark.parametrize(("typed", "result"), [("y", "trusted"), ("", "untrusted"), ("n", "untrusted")])
def test_it_asks_at_a_terminal(live: Live, typed: str, result: str) -> None:
    plant(live)
    with open_terminal(live, "workspace", "trust") as terminal:
        terminal.shows("[y/N]")
        terminal.type(f"{typed}\n")
        assert terminal.ends() == (0 if typed == "y" else 2)
    assert "+decision = 'deny'" in terminal.printed
    assert state(live) == result


def test_a_program_in_there_is_the_one_that_was_trusted(live: Live) -> None:
    plant(live, HOOK, hook="#!/bin/sh\ntouch trusted-ran\n")
    trust(live, "--yes")
    plant(live, HOOK, hook="#!/bin/sh\ntouch changed-ran\n")
    live.new()
    wait_until((live.workspace / "trusted-ran").exists)
    assert not (live.workspace / "changed-ran").exists()


def test_an_agent_from_there_is_the_one_that_was_trusted(live: Live) -> None:
    folder = plant(live, "") / "agents"
    folder.mkdir()
    (folder / "theirs.toml").write_text(f"argv = {json.dumps(list(ECHO))}\n")
    trust(live, "--yes")
    (folder / "theirs.toml").write_text('argv = ["touch", "changed-ran"]\n')
    session = live.session(live.agh("session", "new", "--agent", "theirs").stdout.strip())
    assert session.tell("hello") == "echo: hello"
    assert not (live.workspace / "changed-ran").exists()


def test_what_an_agent_writes_there_is_not_obeyed_at_the_next_start(live: Live) -> None:
    plant(live)
    trust(live, "--yes")
    session = live.new(args=("--permissions", "approve-all"))
    plant(live, "[[permissions.rules]]\ndecision = 'allow'\nkind = '*'\n")
    session.stop()
    assert "has changed" in session.prompt("/ask path=a.txt").stderr
    assert outcomes(session) == [("denied", "rule")]


def test_an_agent_cannot_trust(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'allow'\nkind = 'execute'\n")
    plant(live)
    session = live.new()
    line = f"{sys.executable} -m agh workspace trust --yes {live.workspace} 2>&1; echo exit $?"
    assert "an agent cannot trust a workspace" in session.tell(f"/run {line}")
    assert state(live) == "untrusted"


@pytest.mark.parametrize("kind", ["a FIFO", "a link", "too much"])
def test_what_cannot_be_trusted(live: Live, kind: str) -> None:
    folder = plant(live)
    if kind == "a FIFO":
        os.mkfifo(folder / "pipe")
    elif kind == "a link":
        (folder / "out").symlink_to("/etc/passwd")
    else:
        (folder / "large").write_bytes(b"x" * (2 << 20))
    trust(live, "--yes", code=2)
    assert state(live) == "untrusted"


def test_a_workspace_that_holds_the_home(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    home = live.workspace / ".agh"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("AGH_HOME", str(home))
    inner = Live(home, live.workspace)
    try:
        assert "cannot be trusted" in inner.agh("workspace", "trust", "--yes", code=2).stderr
        assert state(inner) == "none"
    finally:
        inner.end()


def test_the_pads_of_a_council_are_no_settings(live: Live) -> None:
    folder = plant(live)
    trust(live, "--yes")
    (folder / "council").mkdir()
    (folder / "council" / "notes").write_text("notes")
    assert state(live) == "trusted"


def test_a_directory_without_settings_is_nothing_to_trust(live: Live) -> None:
    for option in ([], ["--yes"]):
        error = trust(live, *option, code=2)
        assert "cannot be trusted: it has no .agh/ with settings" in error
