"""A read-only home, too few descriptors, a session deleted under a command: never called a bug of agh."""

from __future__ import annotations

import json
import os
import resource
from contextlib import suppress

import pytest

from tests.support.build import Home, says, user
from tests.support.files import tree
from tests.support.live import Live, Session
from tests.support.mounts import read_only
from tests.support.processes import cpu_ticks_of
from tests.support.resume import RECALL, SEEN, wait_until_gone
from tests.support.wait import wait_until

WRITING = [
    ("session", "new", "--agent", "echo"),
    ("session", "prompt", "ID", "hello"),
    ("session", "resume", "ID"),
    ("session", "rename", "ID", "other"),
    ("session", "archive", "ID"),
    ("session", "fork", "ID"),
    ("session", "delete", "ID"),
    ("session", "repair", "--all", "--force"),
    ("session", "prune", "--older-than", "0s"),
    ("session", "queue", "clear", "ID"),
    ("session", "set", "ID", "permissions=deny-all"),
    ("config", "set", "agent", "echo"),
    ("workspace", "add", "."),
    ("run", "--agent", "echo", "hello"),
]
STARTING = [("session", "new"), ("session", "prompt"), ("session", "resume"), ("session", "fork")]
READING = [
    ("session", "list", "--all"),
    ("session", "status", "ID"),
    ("session", "events", "ID"),
    ("session", "transcript", "ID"),
    ("session", "recap", "ID"),
    ("session", "export", "ID"),
    ("config", "show"),
]


@pytest.mark.parametrize("command", WRITING, ids=lambda command: " ".join(command[:2]))
def test_a_home_that_is_read_only(live: Live, talked: Session, command: tuple[str, ...]) -> None:
    before = tree(live.home)
    with read_only(live.home):
        result = live.agh(*(talked.id if word == "ID" else word for word in command), code=None)
    assert result.returncode not in (0, 70), (result.stdout, result.stderr)
    assert "Read-only file system" in result.stderr or "read-only" in result.stderr
    assert "Traceback" not in result.stderr
    wait_until_gone(talked)
    assert tree(live.home) == before
    if command[:2] in STARTING:
        assert talked.say(RECALL) == SEEN


def test_a_read_only_home_can_be_read(live: Live, talked: Session) -> None:
    with read_only(live.home):
        for command in READING:
            live.agh(*(talked.id if word == "ID" else word for word in command))


@pytest.mark.parametrize("count", range(4, 26, 2))
def test_too_few_descriptors(shared_live: Live, shared: Session, count: int) -> None:
    """Whatever the number, a command works or says what is wrong: with its own words and exit number."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

    for words in (
        ("session", "list"),
        ("session", "events", shared.id),
        ("session", "prompt", shared.id, "/say works"),
        ("session", "new", "--agent", "echo"),
    ):
        result = shared_live.agh(*words, code=None, preexec_fn=limited)
        text = result.stderr.lower()
        assert result.returncode not in (70, 8), (words, result.returncode, result.stderr)
        assert result.returncode == 0 or count < 8 or "traceback (most" not in text, (words, result.stderr)
        if result.returncode and "traceback (most" not in text:
            assert any(word in text for word in ("too many", "ulimit", "descriptors")), (words, result.stderr)


def test_the_session_stays_what_it_is_without_descriptors(shared: Session) -> None:
    """A lock that cannot be looked at is not a free lock."""
    open_files = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        with suppress(OSError):
            while True:
                open_files.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            shared.is_live()
    finally:
        for fd in open_files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert shared.is_live()


@pytest.mark.parametrize("verb", ["prompt", "events", "status", "resume", "transcript", "export", "repair"])
def test_a_session_that_is_deleted_meanwhile(live: Live, home: Home, verb: str) -> None:
    codes = set()
    for ticks in (3, 6, 10):  # of the processor, at which the command is about to look, looks, or has looked
        directory = home.session(
            [user("hello"), says("hi")], agent_name="echo", workspace_path=str(live.workspace)
        )
        args = ("/say hi",) if verb == "prompt" else ()
        first = live.start("session", verb, directory.name, *args)
        wait_until(lambda: first.poll() is not None or cpu_ticks_of(first.pid) >= ticks)  # noqa: B023
        second = live.agh("session", "delete", directory.name, code=None)
        _, err = first.communicate(timeout=30)
        codes |= {first.returncode, second.returncode}
        assert b"Traceback" not in err
        assert first.returncode not in (70, 8), err
        if directory.exists():  # the other won
            with suppress(AssertionError):
                live.agh("session", "stop", directory.name)
            live.agh("session", "delete", directory.name, code=None)
    assert codes <= {0, 4, 6, 7, 9}, codes


def test_a_killed_command_leaves_no_temporary_file_for_long(live: Live, talked: Session) -> None:
    for name in (".meta.json.4194000", ".checkpoint.json.4194001"):
        (talked.directory / name).write_text("half")
    (live.home / ".config.toml.4194002").write_text("half")
    (live.home / f".config.toml.{os.getpid()}").write_text("in use")
    talked.revive()
    assert [name for name in os.listdir(talked.directory) if name.startswith(".")] == []
    live.agh("session", "repair", "--all")
    assert [name for name in os.listdir(live.home) if name.startswith(".")] == [f".config.toml.{os.getpid()}"]
    wait_until(lambda: json.loads((talked.directory / "meta.json").read_text())["state"] == "active")
