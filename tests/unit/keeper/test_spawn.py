"""Keepers that are started before their session is created."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from agh.keeper import spawn
from tests.support.live import Live
from tests.support.processes import Process, is_alive, kill, processes
from tests.support.program import AGH
from tests.support.wait import wait_until


@pytest.fixture
def waiting(live: Live) -> Iterator[spawn.KeeperProcess]:
    """Yield a keeper that was started ahead, as `agh session new` does first of all."""
    spawn.start_ahead()
    waiting = spawn._ahead
    assert waiting is not None
    yield waiting
    waiting.connection.close()
    spawn._ahead = None
    wait_until(lambda: not is_alive(waiting.pid))
    if waiting.pid not in live.children:
        os.waitpid(waiting.pid, 0)


def test_it_keeps_the_session_that_is_made_next(live: Live, waiting: spawn.KeeperProcess) -> None:
    session = live.new()
    assert str(session.directory) == waiting.session.directory
    assert session.keeper == waiting.pid
    assert session.tell("hello") == "echo: hello"
    second = live.new()
    assert second.keeper != waiting.pid
    session.stop()


def test_without_a_request_it_exits_and_leaves_nothing(waiting: spawn.KeeperProcess) -> None:
    wait_until(lambda: is_alive(waiting.pid))
    waiting.connection.close()
    wait_until(lambda: not is_alive(waiting.pid))
    assert not os.path.exists(waiting.session.directory)


def test_one_that_has_died_is_replaced(live: Live, waiting: spawn.KeeperProcess) -> None:
    kill(waiting.pid)
    wait_until(lambda: not is_alive(waiting.pid))
    session = live.new()
    assert str(session.directory) == waiting.session.directory
    assert session.keeper != waiting.pid
    assert session.tell("hello") == "echo: hello"


def test_one_that_has_waited_long_is_not_used(
    live: Live, waiting: spawn.KeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's id would tell the time at which the command was started."""
    monkeypatch.setattr(spawn, "AHEAD_LIMIT", 0)
    session = live.new()
    assert str(session.directory) != waiting.session.directory
    assert session.keeper != waiting.pid


@pytest.mark.parametrize("args", [("run",), ("session", "new")])
def test_a_command_that_fails_leaves_no_keeper(live: Live, args: tuple[str, ...]) -> None:
    prompt = ["hello"] if args == ("run",) else []
    live.agh(*args, "--agent", "nobody", *prompt, code=4, by_exec=True)
    wait_until(
        lambda: not [process for process in processes() if process.environ.get("AGH_HOME") == str(live.home)]
    )
    assert not (live.home / "sessions").exists()


def test_killed_with_its_command_it_leaves_nothing(live: Live) -> None:
    """The command waits for its prompt, and its keeper for the command."""
    command = live.start("run", "-", stdin=-1)
    wait_until(lambda: [process for process in live.processes() if spawn.DEFAULT_MODULE in process.argv])
    command.kill()
    command.wait(10)
    wait_until(lambda: not live.processes())
    assert live.sessions() == []


def test_its_socket_is_not_taken_for_a_stream(live: Live) -> None:
    """The command was started with its output closed; what it opens first must not get those numbers."""
    closed = ["sh", "-c", 'exec "$0" run - >&- 2>&-', AGH]
    with subprocess.Popen(closed, stdin=subprocess.PIPE, cwd=live.workspace) as command:

        def keepers() -> list[Process]:
            return [process for process in live.processes() if spawn.DEFAULT_MODULE in process.argv]

        keeper = wait_until(keepers)[0]  # or its leash, which has the same command line at first
        assert int(keeper.argv[-1]) > 2
        streams = [os.readlink(f"/proc/{command.pid}/fd/{stream}") for stream in (1, 2)]
        command.kill()
    assert streams == [os.devnull, os.devnull]
    wait_until(lambda: not live.processes())
