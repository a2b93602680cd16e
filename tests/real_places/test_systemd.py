"""Sessions in scopes of a real user manager. Run by `make systemd`, in a container that runs systemd."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.processes import is_alive
from tests.support.wait import wait_until


def systemctl(*args: str) -> str:
    environ = {**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
    argv = ["systemctl", "--user", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, env=environ).stdout.strip()


def manager_runs() -> bool:
    try:
        return systemctl("is-system-running") in ("running", "degraded")
    except OSError:
        return False


pytestmark = [
    pytest.mark.real_places,
    pytest.mark.skipif(not manager_runs(), reason="needs a user manager of systemd: make systemd"),
]


def scopes() -> list[str]:
    """Return the scopes of sessions that have a process; only cgroup 2 tells when the last has gone."""
    listed = systemctl("list-units", "--type=scope", "--plain", "--no-legend")
    names = [line.split()[0] for line in listed.splitlines() if "agh sess-" in line]
    groups = "".join(read_group(path) for path in Path("/proc").glob("[0-9]*/cgroup"))
    return [name for name in names if name in groups]


def read_group(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has gone
        return ""


def test_new_prompt_kill_resume(live: Live) -> None:
    session = live.new(args=("--on", "systemd"))
    (scope,) = scopes()
    agent = int(session.tell("remember the lighthouse\n/pid").partition("pid: ")[2])
    assert scope in Path(f"/proc/{agent}/cgroup").read_text()
    session.kill_keeper()
    wait_until(lambda: not is_alive(agent), 5)
    wait_until(lambda: not scopes(), what="no scope is left")
    result = session.prompt("what did I say?")
    assert "remember the lighthouse" in result.stdout
    session.stop()
    wait_until(lambda: not scopes(), what="no scope is left")


def test_it_has_its_limits(live: Live) -> None:
    live.configure('[places.small]\non = "systemd"\nmemory = "200M"\ncpus = 0.5\n')
    session = live.new(args=("--on", "small"))
    (scope,) = scopes()
    assert systemctl("show", "-P", "MemoryMax", scope) == str(200 << 20)
    assert systemctl("show", "-P", "CPUQuotaPerSecUSec", scope) == "500ms"
    session.stop()


def test_the_exit_of_an_agent_is_noticed(live: Live) -> None:
    session = live.new(args=("--on", "systemd"))
    agent = int(session.tell("/pid").partition("pid: ")[2])
    session.send("/exit 3")
    wait_until(lambda: not is_alive(agent))
    wait_until(lambda: not session.is_live(), 2)
    wait_until(lambda: not scopes(), what="no scope is left")


def test_doctor(live: Live) -> None:
    agent = json.loads(live.agh("agent", "doctor", "echo", "--on", "systemd", "-o", "json").stdout)["agent"]
    assert (agent["state"], agent["place"]) == ("works", "systemd")
    result = live.agh(
        "agent",
        "doctor",
        "echo",
        "--on",
        "systemd",
        "-o",
        "json",
        code=7,
        env={"XDG_RUNTIME_DIR": "/nowhere"},
    )
    error = json.loads(result.stderr)["error"]
    assert (error["code"], "your systemd user manager is not running" in error["message"]) == (
        "place_gone",
        True,
    )
