"""An upgrade under live sessions: keepers and commands of different versions, and files that are replaced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import agh
from tests.support.live import Live, Session
from tests.support.wait import wait_until

PACKAGE = Path(agh.__file__).parent


class Installation:
    """A copy of the program that can be replaced by another version of itself."""

    def __init__(self, live: Live, path: Path) -> None:
        self.live, self.path = live, path
        shutil.copytree(PACKAGE, path / "agh")  # with what was compiled, which is newer than no edit

    def run(self, *args: object, code: int = 0) -> str:
        """Run the program as it is installed now; return its output, or its errors if it must fail."""
        process = subprocess.run(
            [sys.executable, "-P", "-m", "agh", *map(str, args)],
            env={**os.environ, "AGH_HOME": str(self.live.home), "PYTHONPATH": str(self.path)},
            cwd=self.live.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert process.returncode == code, (args, process.stdout, process.stderr)
        return process.stderr if code else process.stdout

    def new(self) -> Session:
        return self.live.session(self.run("session", "new", "--agent", "echo").strip())

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a file by one that differs, as an installer does: the old file is gone, not changed."""
        path = self.path / "agh" / name
        text = path.read_text()
        assert old in text
        path.unlink()
        path.write_text(text.replace(old, new))

    def change_version(self, *, protocol: bool) -> None:
        """Make this another version; with `protocol`, one that speaks another protocol."""
        self.edit("__init__.py", f'__version__ = "{agh.__version__}"', '__version__ = "99.0"')
        if protocol:
            self.edit("keeper/protocol.py", "\nVERSION = 1\n", "\nVERSION = 2\n")


@pytest.fixture
def installed(live: Live, tmp_path: Path) -> Installation:
    return Installation(live, tmp_path / "installed")


@pytest.fixture
def upgraded(live: Live, tmp_path: Path) -> Installation:
    """Another copy, which speaks another protocol."""
    copy = Installation(live, tmp_path / "upgraded")
    copy.change_version(protocol=True)
    return copy


def keeper_version(session: Session) -> str:
    return str(session.hello()["version"])


def test_another_version_with_the_same_protocol_works(installed: Installation) -> None:
    session = installed.new()
    installed.change_version(protocol=False)
    assert installed.run("--version") == "agh 99.0\n"
    assert "echo: hello" in installed.run("session", "prompt", session.id, "hello")
    assert keeper_version(session) == agh.__version__, "the keeper is the old one"
    installed.run("session", "stop", session.id)
    assert "echo: again" in installed.run("session", "prompt", session.id, "again")
    assert keeper_version(session) == "99.0"


@pytest.mark.parametrize("direction", ["old keeper, new command", "new keeper, old command"])
def test_another_protocol_is_refused_and_the_session_can_be_stopped(
    installed: Installation, upgraded: Installation, direction: str
) -> None:
    first, second = (installed, upgraded) if direction.startswith("old") else (upgraded, installed)
    session = first.new()
    keeper = session.meta()["keeper"]["pid"]
    for args in (("prompt", session.id, "hello"), ("resume", session.id), ("set", session.id, "mode=plan")):
        error = second.run("session", *args, code=6)
        assert "another version of agh" in error
        assert "agh session stop" in error
    assert session.meta()["keeper"]["pid"] == keeper, "nothing has replaced the keeper"
    assert "echo: hello" in first.run("session", "prompt", session.id, "hello")

    status = json.loads(second.run("session", "status", session.id, "-o", "json"))["session"]
    assert (status["is_agent_running"], status["needs_resume"]) == (True, False)
    assert "echo: hello" in second.run("session", "transcript", session.id, "-o", "text")
    second.run("session", "stop", session.id)
    wait_until(lambda: not session.is_live())
    assert session.meta()["stop_reason"] == "completed"
    assert "echo: again" in second.run("session", "prompt", session.id, "again")
    second.run("session", "stop", session.id)
    session.check_log()


def test_a_keeper_starts_programs_with_the_leash_that_it_was_started_with(
    live: Live, installed: Installation
) -> None:
    hook = '[[hooks]]\nevent = "turn_end"\ncommand = "echo heard"\n'
    live.configure(f'[permissions]\nmode = "approve-all"\n{hook}')
    session = installed.new()
    installed.edit("keeper/leash/leash.py", "import os\n", "raise SystemExit('this is another version')\n")
    assert "works\n" in installed.run("session", "prompt", session.id, "/run echo works")
    wait_until(lambda: session.fetch("SELECT 1 FROM hook_runs"))
    assert session.fetch("SELECT outcome, output FROM hook_runs") == [("ok", "heard\n")]
    assert "another version" in installed.run("session", "new", "--agent", "echo", code=7), "the file is used"


def test_a_keeper_that_cannot_be_loaded_says_why(live: Live, installed: Installation) -> None:
    """Also if it is started ahead, and so slow that it has its request before it fails."""
    slow = "import time\ntime.sleep(0.8)\nraise SystemExit('this is broken')\n"
    installed.edit("keeper/leash/leash.py", "import os\n", slow)
    assert "this is broken" in installed.run("session", "new", "--agent", "echo", code=7)
