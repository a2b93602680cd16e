"""Sessions as jobs of a real Slurm, of one node, on this machine. Run by `make slurm`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from agh_places import far

from tests.real_places import cluster
from tests.real_places.engines import USERLANDS
from tests.support.live import Live, Session
from tests.support.processes import is_alive
from tests.support.userland import find_program
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.real_places,
    pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing()),
    pytest.mark.timeout(300),
]
WORK = "/spawn-setsid 300\n/stream 600 0.05"
GONE_WITHIN = 5.0
SILENCE = 5 * far.PAUSE + 5


@pytest.fixture(scope="module", params=USERLANDS)
def slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    program = USERLANDS[request.param]
    shell = find_program(program) if program else ""
    with cluster.running(tmp_path_factory.mktemp("slurm"), shell=shell) as environ:
        yield environ


@pytest.fixture(autouse=True)
def in_cluster(slurm: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm[name])


def jobs() -> list[str]:
    result = subprocess.run(
        ["squeue", "-h", "-o", "%j"], capture_output=True, text=True, timeout=20, check=True
    )
    return result.stdout.split()


def at_work(session: Session) -> list[int]:
    """Wait until the turn is under way; the agent and a process of its that left the session."""
    agent = int(session.tell("/pid").partition("pid: ")[2])
    session.send(WORK)
    session.wait_for_text("chunk 3 ")
    return [agent, int(session.text().partition("spawned: ")[2].split("chunk")[0])]


def test_new_prompt_scancel_resume(live: Live) -> None:
    session = live.new(args=("--on", "slurm:debug"))
    assert jobs() == [f"agh-{session.id}"]
    session.tell("remember the lighthouse")
    assert "SLURM_JOB_ID=" in session.tell("/env SLURM_JOB_ID")
    assert "AGH_HOME is not set" in session.tell("/env AGH_HOME"), "srun brings nothing along"
    there = at_work(session)
    subprocess.run(["scancel", f"--name=agh-{session.id}"], check=True, timeout=20)
    wait_until(lambda: not any(map(is_alive, there)), GONE_WITHIN, "the node is empty")
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert meta["failure"]["kind"] == "transport_failure"
    assert meta["stop_reason"] == "error"
    result = session.prompt("what did I say?")
    assert "remember the lighthouse" in result.stdout
    assert "resumed by native_resume" in result.stderr
    assert f"agh-{session.id}" in jobs()
    session.stop()
    wait_until(lambda: not jobs(), 20)


def test_a_keeper_that_is_killed_leaves_no_job(live: Live) -> None:
    """Slurm keeps a job whose srun is gone, and does not end its stdin: the far side misses the heartbeat."""
    session = live.new(args=("--on", "slurm"))
    there = at_work(session)
    session.kill_keeper()
    wait_until(lambda: not any(map(is_alive, there)), SILENCE, "the node is empty")
    wait_until(lambda: not jobs(), 20, "the allocation has ended")
    assert session.say("what did I say?").startswith("SEEN 3")


def test_repair_ends_such_a_job_at_once(live: Live) -> None:
    session = live.new(args=("--on", "slurm"))
    there = at_work(session)
    session.kill_keeper()
    session.agh("repair")
    wait_until(lambda: not any(map(is_alive, there)), GONE_WITHIN)
    wait_until(lambda: not jobs(), 20)


def test_the_exit_of_an_agent_is_noticed_at_once(live: Live) -> None:
    session = live.new(args=("--on", "slurm"))
    agent = int(session.tell("/pid").partition("pid: ")[2])
    session.send("/exit 3")
    wait_until(lambda: not is_alive(agent))
    wait_until(lambda: not session.is_live(), 5, "srun itself takes a second or two")
    assert "exited with code 3 in slurm" in session.meta()["failure"]["summary"]
    wait_until(lambda: not jobs(), 20)


def test_doctor(live: Live) -> None:
    agent = json.loads(live.agh("agent", "doctor", "echo", "--on", "slurm", "-o", "json").stdout)["agent"]
    assert (agent["state"], agent["place"]) == ("works", "slurm")
    result = live.agh("agent", "doctor", "echo", "--on", "slurm:nowhere", "-o", "json", code=7)
    assert json.loads(result.stderr)["error"]["code"] == "place_gone"
    wait_until(lambda: not jobs(), 20)


def test_several_sessions_side_by_side(live: Live) -> None:
    live.configure('[places.hpc]\non = "slurm:debug"\noptions = ["--overcommit"]\n')
    started = [live.start("session", "new", "--agent", "echo", "--on", "hpc") for _ in range(6)]
    sessions = [live.session(process.communicate(timeout=60)[0].decode().strip()) for process in started]
    assert len(jobs()) == 6
    for number, session in enumerate(sessions):
        assert session.tell(f"number {number}") == f"echo: number {number}"
    for session in sessions:
        session.stop()
    wait_until(lambda: not jobs(), 20)
