"""Fifty sessions on a real Slurm with room for eight, by the loop of docs/places.md. Run by `make slurm`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_places import cluster
from tests.support.build import ROOT
from tests.support.live import Live
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.real_places,
    pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing()),
    pytest.mark.timeout(900),
]
SESSIONS, SLOTS = 50, 8
PAGE = (ROOT / "docs/places.md").read_text()


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a cluster with eight slots of two processors and 4 GB, as the page's place asks for."""
    with cluster.running(tmp_path / "slurm", cpus=2 * SLOTS, memory=4096 * SLOTS) as environ:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, environ[name])
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        yield


def running_jobs() -> int:
    squeue = ["squeue", "-h", "-t", "RUNNING", "-o", "%j"]
    return len(subprocess.run(squeue, capture_output=True, text=True, timeout=20, check=True).stdout.split())


def test_the_loop_of_the_page_on_eight_slots(live: Live, slurm: None, tmp_path: Path) -> None:
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    (script,) = [
        block for block in re.findall(r"^```shell\n(.*?)^```$", PAGE, re.M | re.S) if "while" in block
    ]
    loop, _, follow = script.strip().rpartition("\n")
    assert follow.startswith("agh session events --all --follow")
    live.configure('agent = "echo"\n' + settings.replace("/scratch/me", str(tmp_path)))
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        subprocess.run(["git", "-C", str(live.workspace), *identity, *command], check=True)
    (live.workspace / "fifty-issues.txt").write_text("".join(f"{n}\n" for n in range(1, SESSIONS + 1)))
    environ = {**os.environ, "AGH_HOME": str(live.home)}
    began = time.monotonic()
    subprocess.run(["sh", "-ec", loop], cwd=live.workspace, env=environ, check=True, timeout=600)
    started = time.monotonic()
    sessions = live.sessions()
    assert len(sessions) == SESSIONS
    most = 0

    def are_done() -> bool:
        nonlocal most
        most = max(most, running_jobs())
        return all(status == "sent" for session in sessions for status, _ in session.inputs())

    wait_until(are_done, 600, "every prompt is answered")
    answered = time.monotonic()
    assert most <= SLOTS
    for session in sessions:
        ((_, prompt),) = session.inputs()
        assert session.text() == f"echo: {prompt}"
        session.check_log()
    wait_until(lambda: not any(session.is_live() for session in sessions), 120, "all slots are given back")
    print(
        f"{SESSIONS} sessions on {SLOTS} slots: started in {started - began:.0f} s, "
        f"answered after {answered - began:.0f} s, at most {most} jobs at a time"
    )
