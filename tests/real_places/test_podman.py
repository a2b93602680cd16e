"""Sessions in real containers, of podman. The image is a bare tree; programs are mounted from this machine.

Run by `make podman`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import agh_echo
import pytest

from tests.support.live import Live, Session
from tests.support.processes import is_alive
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.real_places,
    pytest.mark.skipif(
        not (shutil.which("podman") and shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin")),
        reason="needs podman and runc: apt-get install podman runc",
    ),
    pytest.mark.timeout(300),
]
PODMAN = ["podman", "--runtime", "runc"]
ULIMITS = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
IMAGE = "localhost/agh-bare:test"
WORK = "/spawn-setsid 300\n/stream 600 0.05"


def podman(*args: str, check: bool = True) -> str:
    result = subprocess.run(
        [*PODMAN, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert not check or result.returncode == 0, result.stderr
    return result.stdout.strip()


def mounts(*folders: Path | str) -> list[str]:
    """This machine's programs, read-only; `folders` as they are."""
    venv = Path(sys.prefix)
    programs = ["/usr", sys.base_prefix, venv, Path(agh_echo.__file__).parents[1]]
    shown = [f"{path}:{path}:ro" for path in dict.fromkeys(map(str, programs))]
    return [word for path in (*shown, *(f"{path}:{path}" for path in folders)) for word in ("-v", path)]


@pytest.fixture(scope="module", autouse=True)
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tree = tmp_path_factory.mktemp("tree")
    for name in ("usr", "proc", "sys", "dev", "etc", "tmp"):
        (tree / name).mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    packed = subprocess.run(["tar", "-C", str(tree), "-c", "."], check=True, capture_output=True).stdout
    subprocess.run([*PODMAN, "import", "-q", "-", IMAGE], input=packed, check=True, capture_output=True)
    yield
    podman("rmi", "-f", IMAGE)


@pytest.fixture(autouse=True)
def memory(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent remembers must be where the next container finds it."""
    monkeypatch.setenv("AGH_ECHO_HOME", str(live.workspace / ".echo"))


def name(live: Live, **fields: object) -> None:
    given = {"command": PODMAN, **fields}
    live.configure("\n".join(["[places.box]", *(f"{key} = {json.dumps(one)}" for key, one in given.items())]))


def containers() -> list[str]:
    return [one for one in podman("ps", "-a", "--format", "{{.Names}}").split() if one.startswith("agh-")]


def at_work(session: Session) -> None:
    session.send(WORK)
    session.wait_for_text("chunk 3 ")


def below(container: str) -> list[int]:
    """Return the pids, on this machine, of what runs in a container."""
    return [int(pid) for pid in podman("top", container, "hpid").split() if pid.isdigit()]


def test_run_kill_resume(live: Live) -> None:
    name(live, on=f"podman:run:{IMAGE}", options=[*ULIMITS, *mounts()])
    session = live.new(args=("--on", "box"))
    container = f"agh-{session.id}"
    assert containers() == [container]
    assert "container=podman" in session.tell("remember the lighthouse\n/env container")
    at_work(session)
    there = below(container)
    assert len(there) >= 4
    podman("kill", container)
    wait_until(lambda: not any(map(is_alive, there)), 5)
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["stop_reason"], meta["failure"]["kind"]) == ("error", "transport_failure")
    result = session.prompt("what did I say?")
    assert "remember the lighthouse" in result.stdout
    assert "resumed by native_resume" in result.stderr
    session.stop()
    wait_until(lambda: not containers(), what="no container is left")


def test_run_when_the_keeper_is_killed(live: Live) -> None:
    name(live, on=f"podman:run:{IMAGE}", options=[*ULIMITS, *mounts()])
    session = live.new(args=("--on", "box"))
    at_work(session)
    there = below(f"agh-{session.id}")
    session.kill_keeper()
    wait_until(lambda: not any(map(is_alive, there)), 5)
    session.agh("repair")
    assert containers() == []
    assert session.say("what did I say?").startswith("SEEN 2")


def test_run_has_its_limits(live: Live) -> None:
    name(live, on=f"podman:run:{IMAGE}", options=[*ULIMITS, *mounts()], memory="200m")
    session = live.new(args=("--on", "box"))
    assert podman("inspect", "-f", "{{.HostConfig.Memory}}", f"agh-{session.id}") == str(200 << 20)


def test_exec_kill_resume(live: Live) -> None:
    name(live, on="podman:agh-test-box")
    folder = str(live.workspace)
    podman("run", "-d", "--name", "agh-test-box", *ULIMITS, *mounts(folder), IMAGE, "sleep", "1000")
    try:
        agent = json.loads(live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json").stdout)["agent"]
        assert agent["state"] == "works"
        session = live.new(args=("--on", "box"))
        session.tell("remember the harbour")
        at_work(session)
        there = set(below("agh-test-box"))
        session.kill_keeper()
        wait_until(lambda: len(below("agh-test-box")) == 1, 5, "only the container's own process is left")
        assert "harbour" in session.say("what did I say?")
        at_work(session)
        there |= set(below("agh-test-box"))
        podman("kill", "agh-test-box")
        wait_until(lambda: not any(map(is_alive, there)), 5)
        wait_until(lambda: not session.is_live())
        assert session.meta()["failure"]["kind"] == "transport_failure"
        assert session.error("resume", code=7)["code"] == "place_gone"
        result = live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json", code=7)
        assert json.loads(result.stderr)["error"]["code"] == "place_gone"
        podman("start", "agh-test-box")
        assert "harbour" in session.say("what did I say?")
        session.stop()
    finally:
        podman("rm", "-f", "-t", "0", "agh-test-box", check=False)


def test_a_worktree_in_a_container_has_its_repository(live: Live) -> None:
    def git(*args: str) -> None:
        subprocess.run(["git", "-C", str(live.workspace), *args], check=True, capture_output=True)

    git("init", "-q")
    git("-c", "user.name=me", "-c", "user.email=me@example.org", "commit", "-q", "--allow-empty", "-m", "one")
    name(live, on=f"podman:run:{IMAGE}", options=[*ULIMITS, *mounts(live.workspace / ".echo")])
    (live.workspace / ".echo").mkdir()
    session = live.new(args=("--on", "box", "--worktree", "inside"))
    here = session.meta()["worktree"]["path"]
    said = podman("exec", f"agh-{session.id}", "git", "-C", here, "branch", "--show-current")
    assert said == "inside"
    session.stop()


@pytest.mark.parametrize("there_before", [True, False])
def test_an_agent_in_a_container_cannot_write_what_agh_obeys(live: Live, there_before: bool) -> None:
    """Also in a trusted workspace, where a hook that it wrote would run on the host at the next start."""
    folder = live.workspace / ".agh"
    if there_before:
        folder.mkdir()
    name(live, on=f"podman:run:{IMAGE}", options=[*ULIMITS, *mounts()])
    config = live.home / "config.toml"
    config.write_text(f'trusted_workspaces = ["{live.workspace}"]\n{config.read_text()}')
    session = live.new(args=("--on", "box"))
    hook = '[[hooks]]\nevent = "session_resume"\ncommand = "touch ran"\n'
    script = f"printf '{hook}' > '{folder}/config.toml' || mv '{folder}' '{folder}.old'"
    podman("exec", f"agh-{session.id}", "sh", "-c", script, check=False)
    podman("exec", f"agh-{session.id}", "sh", "-c", f"touch '{live.workspace}/allowed'")
    session.stop()
    assert "resumed" in session.prompt("hello").stderr
    session.stop()
    assert not (folder / "config.toml").exists()
    assert not (live.workspace / "ran").exists()
    assert (live.workspace / "allowed").exists()
