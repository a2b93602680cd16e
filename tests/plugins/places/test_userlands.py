"""Sessions behind a real sshd whose users have dash, bash, or only busybox: never two agents, none left."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.places.userland import Userland
from tests.plugins.places.wire import Wire, serving
from tests.support.live import Live, Session
from tests.support.processes import Process, is_alive, kill, processes
from tests.support.wait import wait_until

GONE_WITHIN = 8.0


@pytest.fixture
def wire(tmp_path: Path, userland: Userland) -> Iterator[Wire]:
    with serving(tmp_path / "sshd", userland.login) as wire:
        yield wire


@pytest.fixture
def session(live: Live, wire: Wire) -> Session:
    """Start a session whose agent survives the end of its stdin, and SIGTERM."""
    wire.name(live)
    (live.home / "agents").mkdir()
    echo = json.loads(live.agh("agent", "show", "echo", "-o", "json").stdout)["agent"]
    deaf = [*echo["argv"], "--deaf"]
    (live.home / "agents" / "deaf.toml").write_text(f'argv = {deaf}\ncrosses = ["AGH_ECHO_*"]\n')
    return live.session(live.agh("session", "new", "--agent", "deaf", "--on", "box").stdout.strip())


def agents(session: Session) -> list[Process]:
    """Return the agents of the session on the far side."""
    return [
        process
        for process in processes()
        if process.argv[1:4] == ["-P", "-m", "agh_echo"]
        and process.environ.get("AGH_PLACE_RUN", "").startswith(f"{session.id}:")
    ]


def marked(session: Session) -> list[Process]:
    """Return everything of the session that the far side started."""
    return [
        process
        for process in processes()
        if process.environ.get("AGH_PLACE_RUN", "").startswith(f"{session.id}:")
    ]


def test_a_client_that_is_killed_leaves_no_agent(session: Session) -> None:
    (agent,) = agents(session)
    kill(session.agent)  # the ssh
    wait_until(lambda: not marked(session), GONE_WITHIN, "the far side is empty")
    wait_until(lambda: not session.is_live())
    session.agh("repair")
    assert session.say("hello") == "echo: hello"
    (successor,) = agents(session)
    assert successor.pid != agent.pid
    session.stop()
    wait_until(lambda: not marked(session), GONE_WITHIN, "the far side is empty")


def test_the_next_prompt_ends_an_agent_that_was_not_told(session: Session, wire: Wire) -> None:
    """The server is frozen, so that its end of the wire stays open when the client is killed."""
    (agent,) = agents(session)
    frozen = wire.connections()
    wire.cut(signal.SIGSTOP)
    kill(session.agent)
    wait_until(lambda: not session.is_live())
    session.agh("repair")
    assert is_alive(agent.pid), "nothing has told the far side"
    assert session.say("hello") == "echo: hello"
    (successor,) = agents(session)
    assert successor.pid != agent.pid
    for pid in frozen:
        kill(pid)
    session.stop()
    wait_until(lambda: not marked(session), GONE_WITHIN, "the far side is empty")


def test_the_exit_of_an_agent_is_noticed(session: Session) -> None:
    session.send("/exit 3")
    wait_until(lambda: not session.is_live())
    assert "exited with code 3 in box" in session.meta()["failure"]["summary"]
    assert marked(session) == []
