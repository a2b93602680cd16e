"""The program as tests run it: in this process a command does what it does in one of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home, conversation
from tests.support.live import Session
from tests.support.program import AGH, WORKING_ALONE, Agh, can_run_here, in_process

COMMANDS = [
    ("agent", "install"),
    ("agent", "list", "-o", "json"),
    ("agent", "search", "--nonsense"),
    ("agent", "show", "echo"),
    ("agent", "uninstall", "nobody"),
    ("agent", "update", "--nonsense"),
    ("completion", "bash"),
    ("config", "get", "permissions"),
    ("config", "path"),
    ("config", "set", "permissions.mode", "approve-reads"),
    ("config", "show"),
    ("config", "validate"),
    ("db", "build", "nowhere/sessions.db"),
    ("db", "query", "SELECT id, name FROM sessions", "--csv"),
    ("doctor", "-o", "json"),
    ("inbox", "-o", "json"),
    ("inbox", "approve", "1"),
    ("plugins", "list"),
    ("session", "answer", "talk", "request"),
    ("session", "approve", "talk"),
    ("session", "archive", "talk"),
    ("session", "cancel", "talk", "-o", "json"),
    ("session", "checkpoint", "talk"),
    ("session", "commands", "talk"),
    ("session", "delete", "nobody"),
    ("session", "deny", "talk", "request"),
    ("session", "detach", "talk"),
    ("session", "events", "talk"),
    ("session", "export", "talk", "-o", "jsonl"),
    ("session", "history", "talk"),
    ("session", "import", "nowhere"),
    ("session", "list", "-o", "json"),
    ("session", "list", "--nonsense"),
    ("session", "permissions", "talk", "-o", "json"),
    ("session", "questions", "talk", "-o", "json"),
    ("session", "prune", "--older-than", "1d", "--dry-run"),
    ("session", "queue", "talk"),
    ("session", "recap", "talk", "--at", "2026-04-16T01:00:00Z"),
    ("session", "redact", "talk", "999"),
    ("session", "rename", "talk", "sess-1"),
    ("session", "repair", "talk"),
    ("session", "repair", "--all", "--dry-run", "-o", "json"),
    ("session", "search", "stop", "--all-workspaces"),
    ("session", "set", "talk", "permissions=deny-all"),
    ("session", "status", "nobody", "-o", "json"),
    ("session", "stop", "talk"),
    ("session", "last", "talk"),
    ("session", "transcript", "talk", "-o", "markdown"),
    ("session", "usage", "talk", "-o", "json"),
    ("skill", "show"),
    ("workspace", "add", "nowhere"),
    ("workspace", "list"),
    ("workspace", "remove", "nowhere"),
    ("workspace", "show", "nowhere"),
]


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_the_same_output_and_exit_number(agh: Agh, home: Home, tmp_path: Path, args: tuple[str, ...]) -> None:
    home.session(conversation(), name="talk")
    assert can_run_here(list(args), {"cwd": tmp_path})
    here, there = in_process(*args, cwd=tmp_path), agh(*args, code=None, by_exec=True, cwd=tmp_path)
    for result in (here, there):  # others write to the disk meanwhile, and a second may pass
        result.stdout = re.sub(r"\d+ MB free|\b\ds ago", "", result.stdout)
    assert vars(here) == vars(there)
    assert here.stdout + here.stderr


@pytest.mark.parametrize("output", ["text", "json", "jsonl", "human"])
@pytest.mark.parametrize("is_live", [True, False])
def test_a_prompt_is_shown_the_same(request: pytest.FixtureRequest, output: str, is_live: bool) -> None:
    session: Session = request.getfixturevalue("shared" if is_live else "talked")
    results = []
    words = ["session", "prompt", session.id, "/say one\n/tool Read id=call\n/say two", "-o", output]
    for by_exec in (False, True):
        if not is_live and session.is_live():
            session.stop()
        assert can_run_here(words, {}) is is_live
        results.append(neutral(session.live.agh(*words, by_exec=by_exec)))
    assert results[0] == results[1]
    assert "two" in results[0][1]


@pytest.mark.parametrize("args", [(), ("-o", "json"), ("--fresh",), ("--agent", "nobody")], ids=" ".join)
def test_a_resume_is_the_same(talked: Session, args: tuple[str, ...]) -> None:
    results = []
    for by_exec in (False, True):
        results.append(neutral(talked.agh("resume", *args, code=None, by_exec=by_exec)))
        if results[-1][0] == 0:
            talked.stop()
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "words",
    [
        ("new", "--agent", "echo"),
        ("new", "--agent", "echo", "-o", "json"),
        ("new", "--agent", "echo", "--model", "nonsense"),
        ("ensure", "--agent", "echo", "--name", "mine", "-o", "json"),
        ("fork", "ID"),
        ("fork", "ID", "--at", "0", "-o", "json"),
    ],
    ids=" ".join,
)
def test_a_start_is_the_same(talked: Session, words: tuple[str, ...]) -> None:
    live, results = talked.live, []
    args = ["session", *(talked.id if word == "ID" else word for word in words)]
    assert can_run_here(args, {}, may_start=True)
    assert not can_run_here(args, {})
    for by_exec in (False, True):
        results.append(neutral(live.agh(*args, code=None, by_exec=by_exec)))
        for session in live.sessions():
            if session.id != talked.id:
                session.stop()
                session.agh("delete")
    assert results[0] == results[1]


def neutral(result: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Return the exit number and the output, without what is different each time."""
    texts = [re.sub(r"[\w-]*\d[\w-]*", "", text) for text in (result.stdout, result.stderr)]
    return result.returncode, texts[0], texts[1]


def test_every_command_that_may_run_here_is_compared() -> None:
    compared = {" ".join(args[:2]) for args in COMMANDS} | {args[0] for args in COMMANDS}
    assert compared >= WORKING_ALONE


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ("session prompt x hello", {}),
        ("session new", {}),
        ("session events x --follow", {}),
        ("session prompt x hello --timeout 5", {}),
        ("session import --from-agent echo", {}),
        ("inbox --count", {}),
        ("session list", {"stdout": subprocess.DEVNULL}),
        ("session list", {"env": {"LANG": "xx"}}),
        ("session list", {"env": {**os.environ, "PYTHONPATH": "/somewhere"}}),
        ("__complete agh", {}),
        ("--version", {}),
    ],
)
def test_where_a_process_matters_there_is_one(args: str, options: dict[str, Any]) -> None:
    assert not can_run_here(args.split(), options)


def test_a_command_here_has_its_own_directory_environment_and_streams(home: Home, tmp_path: Path) -> None:
    folder, other_home = tmp_path / "here é", str(tmp_path / "other")
    folder.mkdir()
    environ = {**os.environ, "AGH_HOME": other_home}
    in_process("workspace", "add", "--name", "é", cwd=folder, env=environ)
    assert in_process("workspace", "list", "-o", "json").stdout == '{"workspaces":[]}\n'
    assert str(folder) in in_process("workspace", "list", env=environ).stdout
    exported = in_process("session", "export", home.session(conversation()).name, "-o", "jsonl", text=False)
    imported = in_process("session", "import", "-", "-o", "json", env=environ, input=exported.stdout)
    assert imported.returncode == 0, imported.stderr
    assert len(list(Path(other_home, "sessions").glob("sess-*"))) == 1


def test_a_command_here_leaves_the_process_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def disturb(args: tuple[str, ...]) -> int:
        print("to the stream")
        os.write(1, b"to the descriptor\n")
        os.write(2, os.read(0, 100))
        os.chdir("/")
        os.umask(0o777)
        os.environ["AGH_TEST"] = "1"
        del os.environ["HOME"]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise SystemExit(3)

    monkeypatch.setattr("tests.support.program.run", disturb)
    descriptors = os.listdir("/proc/self/fd")
    before = state()
    result = in_process("session", "list", cwd=tmp_path, input="typed")
    assert state() == before
    assert os.listdir("/proc/self/fd") == descriptors
    assert (result.returncode, result.stderr) == (3, "typed")
    assert sorted(result.stdout.splitlines()) == ["to the descriptor", "to the stream"]
    assert capfd.readouterr() == ("", "")


def state() -> tuple[object, ...]:
    """Return what a command may change of its process."""
    umask = os.umask(0)
    os.umask(umask)
    streams = (sys.argv, sys.stdin, sys.stdout, sys.stderr)
    return os.getcwd(), dict(os.environ), umask, signal.getsignal(signal.SIGINT), streams


def test_a_program_that_is_started_can_be_waited_for_and_killed(agh: Agh) -> None:
    with agh.start("run", "-", stdin=subprocess.PIPE) as process:
        assert process.args == [AGH, "run", "-"]
        assert process.poll() is None
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
