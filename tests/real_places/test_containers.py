"""Sessions in real containers of podman and docker, with a GNU, a busybox and a musl userland.

Run by `make podman` and `make docker`.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.real_places.engines import OPTIONS, Engine
from tests.support.live import Live, Session
from tests.support.place_kills import agents
from tests.support.processes import is_alive
from tests.support.wait import wait_until

pytestmark = [pytest.mark.real_places, pytest.mark.timeout(300)]
WORK = "/spawn-setsid 300\n/stream 600 0.05"
NOTICED_WITHIN = 2.0  # seconds; it takes 0.2, and the engine some more; a heartbeat would take ten


def name(live: Live, engine: Engine, address: str, **fields: object) -> None:
    """Give the engine's place a name in the settings."""
    place = {"on": f"{engine.name}:{address}", "command": engine.command, **fields}
    lines = [f"{key} = {json.dumps(value)}" for key, value in place.items()]
    live.configure("\n".join(["[places.box]", *lines]))


def run(live: Live, engine: Engine, *args: str, **fields: object) -> Session:
    """Start a session in a container of its own."""
    options = [*OPTIONS, *engine.mounts()]
    name(live, engine, f"run:{engine.image}", options=options, **fields)
    return live.new(args=("--on", "box", *args))


def at_work(session: Session) -> None:
    session.send(WORK)
    session.wait_for_text("chunk 3 ")


def test_run_kill_resume(live: Live, engine: Engine) -> None:
    session = run(live, engine)
    container = f"agh-{session.id}"
    assert engine.containers() == [container]
    session.tell("remember the lighthouse")
    at_work(session)
    there = engine.pids_in(container)
    assert len(there) >= 4
    engine("kill", container)
    wait_until(lambda: not any(map(is_alive, there)), 5)
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["stop_reason"], meta["failure"]["kind"]) == ("error", "transport_failure")
    result = session.prompt("what did I say?")
    assert "remember the lighthouse" in result.stdout
    assert "resumed by native_resume" in result.stderr
    session.stop()
    wait_until(lambda: not engine.containers(), what="no container is left")


def test_run_when_the_keeper_is_killed(live: Live, engine: Engine) -> None:
    session = run(live, engine)
    at_work(session)
    there = engine.pids_in(f"agh-{session.id}")
    session.kill_keeper()
    wait_until(lambda: not any(map(is_alive, there)), 5)
    session.agh("repair")
    assert engine.containers() == []
    assert session.say("what did I say?").startswith("SEEN 2")


def test_run_has_its_limits(live: Live, engine: Engine) -> None:
    session = run(live, engine, memory="200m")
    assert engine("inspect", "-f", "{{.HostConfig.Memory}}", f"agh-{session.id}") == str(200 << 20)


@pytest.mark.parametrize("way", ["run", "exec"])
def test_the_exit_of_an_agent_is_noticed_at_once(live: Live, engine: Engine, way: str) -> None:
    if way == "exec":
        name(live, engine, "agh-test-box")
        folders = engine.mounts(live.workspace)
        engine("run", "-d", "--name", "agh-test-box", *OPTIONS, *folders, engine.image, "sleep", "1000")
    try:
        session = run(live, engine) if way == "run" else live.new(args=("--on", "box"))
        (agent,) = agents(session)
        session.send("/exit 3")
        wait_until(lambda: not is_alive(agent.pid))
        began = time.monotonic()
        wait_until(lambda: not session.is_live(), NOTICED_WITHIN)
        print(f"{engine.name} {way}, {engine.userland}: noticed in {time.monotonic() - began:.2f} s")
        assert "exited with code 3 in box" in session.meta()["failure"]["summary"]
    finally:
        if way == "exec":
            engine("rm", "-f", "agh-test-box")


def test_exec_kill_resume(live: Live, engine: Engine) -> None:
    name(live, engine, "agh-test-box")
    folders = engine.mounts(live.workspace)
    engine("run", "-d", "--name", "agh-test-box", *OPTIONS, *folders, engine.image, "sleep", "1000")
    try:
        agent = json.loads(live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json").stdout)["agent"]
        assert agent["state"] == "works"
        session = live.new(args=("--on", "box"))
        session.tell("remember the harbour")
        at_work(session)
        there = set(engine.pids_in("agh-test-box"))
        session.kill_keeper()
        wait_until(lambda: len(engine.pids_in("agh-test-box")) == 1, 8, "only the container's own is left")
        assert "harbour" in session.say("what did I say?")
        at_work(session)
        there |= set(engine.pids_in("agh-test-box"))
        engine("kill", "agh-test-box")
        wait_until(lambda: not any(map(is_alive, there)), 5)
        wait_until(lambda: not session.is_live())
        assert session.meta()["failure"]["kind"] == "transport_failure"
        assert session.error("resume", code=7)["code"] == "place_gone"
        result = live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json", code=7)
        assert json.loads(result.stderr)["error"]["code"] == "place_gone"
        engine("start", "agh-test-box")
        assert "harbour" in session.say("what did I say?")
        session.stop()
    finally:
        engine("rm", "-f", "agh-test-box", check=False)


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *args], check=True, capture_output=True)


def test_a_worktree_in_a_container_has_its_repository(live: Live, engine: Engine) -> None:
    git(live.workspace, "init", "-q")
    git(live.workspace, "commit", "-q", "--allow-empty", "-m", "one")
    (live.workspace / ".echo").mkdir()
    options = [*OPTIONS, *engine.mounts(live.workspace / ".echo")]
    name(live, engine, f"run:{engine.image}", options=options)
    session = live.new(args=("--on", "box", "--worktree", "inside"))
    here = session.meta()["worktree"]["path"]
    container = f"agh-{session.id}"
    if engine.userland == "gnu":
        assert engine("exec", container, "git", "-C", here, "branch", "--show-current") == "inside"
    repository = engine("exec", container, "sed", "s/gitdir: //", f"{here}/.git")
    assert engine("exec", container, "cat", f"{repository}/HEAD") == "ref: refs/heads/inside"
    assert attack(engine, container, f"rm {here}/.git", f"mv {here}/.git {here}/old") == []
    session.stop()


def attack(engine: Engine, container: str, *commands: str) -> list[str]:
    """Return those of the commands that succeed in the container."""
    script = "; ".join(
        f"({command}) 2>/dev/null && echo '{number}'" for number, command in enumerate(commands)
    )
    done = engine("exec", container, "sh", "-c", f"{script}; true").split()
    return [commands[int(number)] for number in done]


@pytest.mark.parametrize("there_before", [True, False])
def test_an_agent_in_a_container_cannot_write_what_agh_obeys(
    live: Live, engine: Engine, there_before: bool
) -> None:
    """Also in a trusted workspace, where a hook that it wrote would run on the host at the next start."""
    work, nested = live.workspace, live.workspace / "libraries" / "one"
    nested.mkdir(parents=True)
    for folder in (work, nested):
        if there_before:
            (folder / ".agh").mkdir()
    name(live, engine, f"run:{engine.image}", options=[*OPTIONS, *engine.mounts()])
    config = live.home / "config.toml"
    config.write_text(f'trusted_workspaces = ["{work}", "{nested}"]\n{config.read_text()}')
    session = live.new(args=("--on", "box"))
    hook = '[[hooks]]\nevent = "session_resume"\ncommand = "touch ran"\n'
    container = f"agh-{session.id}"
    writes = [
        way
        for folder in (work, nested)
        for way in (
            f"printf '%s' '{hook}' > {folder}/.agh/config.toml",
            f"mv {folder}/.agh {folder}/old",
            f"rm -r {folder}/.agh && mkdir {folder}/.agh",
        )
    ]
    moves = [f"mv {nested} {nested}-old", f"mv {nested.parent} {nested.parent}-old"]
    assert attack(engine, container, *writes, *moves) == []
    assert attack(engine, container, f"touch {work}/allowed", f"touch {nested}/allowed") != []
    session.stop()
    assert "resumed" in session.prompt("hello").stderr
    session.stop()
    assert not [*work.rglob("config.toml")]
    assert not (work / "ran").exists()
    assert (work / "allowed").exists()
    assert (nested / "allowed").exists()


def test_an_agent_in_a_container_cannot_write_what_git_obeys(live: Live, engine: Engine) -> None:
    work = live.workspace
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    session = run(live, engine)
    writes = (
        f"echo x >> {work}/.git/config",
        f"mv {work}/.git/config {work}/old",
        f"touch {work}/.git/hooks/post-checkout",
        f"mv {work}/.git/hooks {work}/old",
        f"mv {work}/.git {work}/old",
    )
    container = f"agh-{session.id}"
    assert attack(engine, container, *writes) == []
    assert attack(engine, container, f"touch {work}/.git/index") != [], "it may commit"
    session.stop()


def test_an_agent_in_a_container_cannot_write_a_home_in_its_workspace(
    live: Live, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = live.workspace / "state"
    state.mkdir()
    live.home.rename(state / "agh") if live.home.exists() else (state / "agh").mkdir(mode=0o700)
    live.home.symlink_to(state / "agh")
    session = run(live, engine)
    writes = (
        f"touch {state}/agh/config.toml",
        f"mv {state}/agh {state}/old",
        f"mv {state} {state}-old",
    )
    assert attack(engine, f"agh-{session.id}", *writes) == []
    session.stop()
