"""The program as tests run it: forked from a warm process it does what it does when it is started anew."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home, conversation
from tests.support.program import Agh
from tests.support.warm import ALWAYS_EXEC, Program

pytestmark = pytest.mark.skipif(ALWAYS_EXEC, reason="everything is run by exec")


def both(agh: Agh, *args: str, **options: Any) -> tuple[subprocess.CompletedProcess[str], ...]:
    return agh(*args, code=None, **options), agh(*args, code=None, by_exec=True, **options)


@pytest.mark.parametrize(
    "args",
    [
        ("--version",),
        ("--help",),
        (),
        ("nonsense",),
        ("session", "list", "-o", "json"),
        ("session", "events", "talk"),
        ("session", "transcript", "talk", "-o", "markdown"),
        ("session", "status", "nobody", "-o", "json"),
        ("config", "path"),
    ],
    ids=" ".join,
)
def test_the_same_words_and_exit_code(agh: Agh, home: Home, tmp_path: Path, args: tuple[str, ...]) -> None:
    home.session(conversation(), name="talk")
    forked, started = both(agh, *args, cwd=tmp_path)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )
    assert forked.stdout + forked.stderr


def test_its_own_directory_environment_and_streams(agh: Agh, tmp_path: Path) -> None:
    here, there = tmp_path / "here é", tmp_path / "there"
    here.mkdir()
    agh("workspace", "add", "--name", "é", cwd=here, env={**os.environ, "AGH_HOME": str(there)})
    assert agh("workspace", "list", "-o", "json").stdout == '{"workspaces":[]}\n'
    with (tmp_path / "listed").open("w") as file:
        agh("workspace", "list", env={**os.environ, "AGH_HOME": str(there)}, stdout=file)
    assert str(here) in (tmp_path / "listed").read_text()
    assert agh("run", "-", "--agent", "echo", "-o", "text", input="/say hi é", cwd=here).stdout == "hi é\n"


def test_it_can_be_waited_for_killed_and_interrupted(agh: Agh, home: Home) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        with agh.start("run", "-", stdin=subprocess.PIPE) as process:
            assert isinstance(process, Program)
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
            process.send_signal(number)
            assert process.wait(10) == -number
            assert process.poll() == -number


@pytest.mark.parametrize("special", [{"start_new_session": True}, {"env": {**os.environ, "LANG": "xx"}}])
def test_what_only_a_new_interpreter_gives_is_run_by_exec(agh: Agh, special: dict[str, Any]) -> None:
    with agh.start("run", "-", stdin=subprocess.PIPE, **special) as process:
        started = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.kill()
    assert b"warm.py" not in started
