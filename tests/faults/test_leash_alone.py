"""Only the leash is killed: its keeper adopts what was below it, and ends that with the session."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agh.keeper.leash.ahead import adopt_orphans
from agh.keeper.leash.child import Leashed
from agh.keeper.loop import Loop
from tests.support.live import ECHO, GONE_WITHIN, Live
from tests.support.processes import children_of, is_alive, kill, look_at
from tests.support.wait import wait_until

# Helpers without their environment, in sessions of their own, whose parents have ended: without a cookie.
HELPERS = '(env -i setsid sh -c \'echo $$ >> "$0"; sleep 300 & echo $! >> "$0"; wait\' {file} &) ; '


def start_helpers(file: Path) -> str:
    return HELPERS.format(file=shlex.quote(str(file)))


def pids_in(file: Path, count: int = 2) -> list[int]:
    wait_until(lambda: file.exists() and len(file.read_text().split()) == count)
    return [int(word) for word in file.read_text().split()]


def test_what_hides_from_the_cookie_ends_with_the_leash(live: Live, tmp_path: Path) -> None:
    script = start_helpers(tmp_path / "pids") + "exec " + shlex.join(ECHO)
    live.agh("session", "new", "--command", shlex.join(["sh", "-c", script]))
    (session,) = live.sessions()
    helpers = pids_in(tmp_path / "pids")
    assert all("AGH_LAUNCH" not in look_at(pid).environ for pid in helpers)  # type: ignore[union-attr]
    keeper = session.keeper
    kill(session.leash)
    wait_until(lambda: not any(map(is_alive, helpers)), GONE_WITHIN)
    wait_until(lambda: not session.is_live())
    assert session.meta()["stop_reason"] == "agent_crashed"
    wait_until(lambda: not is_alive(keeper))
    assert session.say("what did I say?").startswith("SEEN 1")


@pytest.fixture
def subreaper() -> Iterator[None]:
    """The test's own process adopts orphans, as a keeper does."""
    adopt_orphans()
    yield
    adopt_orphans(False)


@pytest.mark.usefixtures("subreaper")
def test_other_leashes_keep_what_is_theirs(tmp_path: Path) -> None:
    """A terminal whose leash is killed must not take the agent with it."""
    loop = Loop()
    files = [tmp_path / "first", tmp_path / "second"]
    processes = [
        Leashed(
            loop,
            ["sh", "-c", start_helpers(file) + "sleep 300"],
            dict(os.environ),
            str(tmp_path),
            ignore,
            nothing,
        )
        for file in files
    ]
    try:
        first, second = map(pids_in, files)
        kill(processes[0]._process.leash_pid)
        assert loop.run_until(lambda: processes[0].over, 20)
        wait_until(lambda: not any(map(is_alive, first)), GONE_WITHIN)
        assert all(map(is_alive, second))
        assert not processes[1].over
        assert [pid for pid in children_of(os.getpid()) if pid in first] == [], "no zombies either"
    finally:
        processes[1].end(eof=0, term=0)
    wait_until(lambda: not any(map(is_alive, second)), GONE_WITHIN)


def ignore(stream: int, data: bytes) -> None:
    pass


def nothing() -> None:
    pass


@pytest.mark.usefixtures("subreaper")
def test_processes_from_before_are_spared(tmp_path: Path) -> None:
    """Something that a plugin left in the background, as ssh does with its master connection."""
    file = tmp_path / "pids"
    subprocess.run(["sh", "-c", start_helpers(file)], check=True, stdin=subprocess.DEVNULL)
    before = pids_in(file)
    try:
        time.sleep(0.02)  # more than a tick, in which the kernel counts start times
        loop = Loop()
        process = Leashed(loop, ["sleep", "300"], dict(os.environ), str(tmp_path), ignore, nothing)
        kill(process._process.leash_pid)
        assert loop.run_until(lambda: process.over, 20)
        assert all(map(is_alive, before))
    finally:
        for pid in before:
            kill(pid)
        for pid in before:
            if pid in children_of(os.getpid()):
                os.waitpid(pid, 0)
