"""Kills of client, keeper and leash of sessions in busybox containers. Run by `make place-kills`."""

from __future__ import annotations

import json
import os

import pytest

from tests.real_places.engines import OPTIONS, Engine
from tests.support.live import Live, Session
from tests.support.place_kills import kill_in_turns
from tests.support.rounds import Rounds
from tests.support.wait import wait_until

ROUNDS = int(os.environ.get("AGH_KILLS") or 10)
pytestmark = [
    pytest.mark.real_places,
    pytest.mark.timeout(120 + 20 * ROUNDS),
    pytest.mark.parametrize("image", ["busybox", "musl"], indirect=True),
]


def start_session(live: Live, engine: Engine, address: str, options: list[str]) -> Session:
    """Start a session in the place whose agent survives the end of its stdin, and SIGTERM."""
    place = {"on": f"{engine.name}:{address}", "command": engine.command, "options": options}
    lines = [f"{key} = {json.dumps(value)}" for key, value in place.items()]
    live.configure("\n".join(["[places.box]", *lines]))
    echo = json.loads(live.agh("agent", "show", "echo", "-o", "json").stdout)["agent"]
    (live.home / "agents").mkdir()
    deaf = [*echo["argv"], "--deaf"]
    (live.home / "agents" / "deaf.toml").write_text(f'argv = {deaf}\ncrosses = ["AGH_ECHO_*"]\n')
    return live.session(live.agh("session", "new", "--agent", "deaf", "--on", "box").stdout.strip())


def test_in_a_container_of_its_own(live: Live, engine: Engine, rounds: Rounds) -> None:
    session = start_session(live, engine, f"run:{engine.image}", [*OPTIONS, *engine.mounts()])
    print(engine.name, engine.userland, "run", kill_in_turns(session, rounds(ROUNDS)))
    wait_until(lambda: not engine.containers(), what="no container is left")


def test_in_a_container_that_runs(live: Live, engine: Engine, rounds: Rounds) -> None:
    folders = engine.mounts(live.workspace)
    engine("run", "-d", "--name", "agh-test-box", *OPTIONS, *folders, engine.image, "sleep", "100000")
    try:
        session = start_session(live, engine, "agh-test-box", [])
        print(engine.name, engine.userland, "exec", kill_in_turns(session, rounds(ROUNDS)))
        assert len(engine.pids_in("agh-test-box")) == 1, "only the container's own process is left"
    finally:
        engine("rm", "-f", "agh-test-box")
