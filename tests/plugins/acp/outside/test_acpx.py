"""acpx from npm as the client: new, prompt, list, resume and cancel. `make peers` installs it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.wait import PATIENCE, wait_until

PROGRAMS = Path(__file__).parents[4] / "build" / "peers" / "node_modules" / ".bin"
SEARCH = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
AGENT = "agh acp --agent echo"

# acpx leaves a process behind that ends when it is idle for a second. A prompt that comes while it ends fails
# with "Queue owner is shutting down".
OWNER = "acpx's own process to end"


class Acpx:
    """Runs acpx in the workspace, with `agh acp` as its agent."""

    def __init__(self, live: Live, home: Path) -> None:
        program = shutil.which("acpx", path=SEARCH)
        if program is None:
            pytest.skip("acpx is not installed; make peers")
        self._live = live
        self._command = [program, "--agent", AGENT, "--approve-all", "--ttl", "1"]
        venv = Path(os.environ.get("VIRTUAL_ENV", Path(__file__).parents[4] / ".venv")) / "bin"
        self._environ = {
            **live._environ(None),
            "HOME": str(home),
            "PATH": f"{venv}{os.pathsep}{SEARCH}",
        }

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *args],
            cwd=self._live.workspace,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *args: str) -> str:
        output, _ = self.start(*args).communicate(timeout=2 * PATIENCE)
        return output


@pytest.fixture
def acpx(live: Live, tmp_path: Path) -> Acpx:
    return Acpx(live, tmp_path / "user")


def test_acpx_opens_prompts_lists_resumes_and_cancels(acpx: Acpx, live: Live) -> None:
    session_id = acpx("sessions", "new").split()[-1]
    session = live.session(session_id)
    assert session.is_live()  # acpx ends what it started, with everything below
    assert session_id in acpx("sessions", "list")
    assert "echo: hello from acpx" in acpx("prompt", "hello from acpx")
    keeper = session.keeper
    wait_until(lambda: not _owners(live), what=OWNER)
    said = acpx("prompt", "what did i say?")
    assert 'SEEN 2 user texts: "hello from acpx"' in said
    wait_until(lambda: not _owners(live), what=OWNER)
    running = acpx.start("prompt", "/stream 1000 0.05")
    wait_until(lambda: "chunk 1 " in session.text(), 2 * PATIENCE, what="a chunk")
    acpx("cancel")
    output, _ = running.communicate(timeout=2 * PATIENCE)
    assert "cancelled" in output
    assert session.keeper == keeper
    assert [status for status, _ in session.inputs()] == ["sent"] * 3
    session.check_log()
    for pid in _owners(live):
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not _owners(live), what=OWNER)


def _owners(live: Live) -> list[int]:
    """Return the processes of acpx that belong to this test."""
    mine = f"AGH_HOME={live.home}".encode()
    owners = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mine in (process / "environ").read_bytes()
                and b"__queue-owner" in (process / "cmdline").read_bytes()
            ):
                owners.append(int(process.name))
        except OSError:
            continue
    return owners
