"""Sessions behind a real sshd whose users have dash, bash, or only a busybox: never two agents, none left."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.places.wire import Wire, serving
from tests.support.live import Live, Session
from tests.support.place_kills import GONE_WITHIN, agents, kill_in_turns, marked
from tests.support.processes import is_alive, kill
from tests.support.rounds import Rounds
from tests.support.userland import Userland
from tests.support.wait import wait_until

NOTICED_WITHIN = 2.0  # seconds; it takes 0.2, a heartbeat would take ten


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
    (agent,) = agents(session)
    session.send("/exit 3")
    wait_until(lambda: not is_alive(agent.pid))
    wait_until(lambda: not session.is_live(), NOTICED_WITHIN)
    assert "exited with code 3 in box" in session.meta()["failure"]["summary"]
    assert marked(session) == []


@pytest.mark.parametrize("userland", ["busybox-musl"], indirect=True)
def test_no_kill_leaves_an_agent_or_leads_to_a_second(session: Session, rounds: Rounds) -> None:
    """A share of what `make place-kills` does in a container."""
    kill_in_turns(session, rounds(3))
