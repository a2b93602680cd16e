"""The Tab key in a real bash, zsh and fish, on a pseudo-terminal; a shell that is missing is skipped."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from struct import pack

import pytest

from agh.cli.completion import FILES
from tests.support.build import ROOT, Home
from tests.support.program import AGH

COMPLETIONS = ROOT / "completions"
PATIENCE = 30.0
READY = "READY>"
CLEAR = "\x15"
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        "PS1='READY''> '; bind 'set bell-style none'; source {script}",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit; compinit -u -d {scratch}/dump; source {script}; PROMPT='READY''> '",
    ),
    "zsh, fpath": (
        ["zsh", "-f", "-i"],
        "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {scratch}/dump; PROMPT='READY''> '",
    ),
    "fish": (
        ["fish", "--no-config", "--private", "-i"],
        "function fish_prompt; printf 'READY''> '; end; function fish_right_prompt; end; source {script}",
    ),
}
ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?<>=]*[a-zA-Z]|[()][A-Z0-9]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[=>78NOM])"
)


class Shell:
    """A shell on a terminal of its own: type, and wait for what should be seen."""

    def __init__(self, name: str, scratch: Path) -> None:
        argv, setup = SHELLS[name]
        self.name = argv[0]
        script = COMPLETIONS / FILES[self.name]
        self.fd, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 50, 160, 0, 0))
        env = {
            "PATH": f"{Path(AGH).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            "AGH_HOME": os.environ["AGH_HOME"],
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
        }
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            cwd=scratch,
            start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(theirs)
        self.screen = ""
        self.type(setup.format(script=script, folder=COMPLETIONS, scratch=scratch) + "\n")
        self.sees(READY)

    def type(self, text: str) -> None:
        self.screen = ""
        os.write(self.fd, text.encode())

    def sees(self, *wanted: str) -> str:
        """Wait until all of it was shown."""
        deadline = time.monotonic() + PATIENCE
        while not all(text in self.screen for text in wanted):
            left = deadline - time.monotonic()
            assert left > 0, f"{[text for text in wanted if text not in self.screen]} not in {self.screen!r}"
            if select.select([self.fd], [], [], left)[0]:
                data = os.read(self.fd, 65536)
                if b"\x1b[c" in data or b"\x1b[0c" in data:  # "who are you?", asked by fish
                    os.write(self.fd, b"\x1b[?1;2c")
                self.screen = ESCAPES.sub("", self.screen + data.decode(errors="replace"))
        return self.screen

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self.fd)


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Iterator[Shell]:
    program = SHELLS[request.param][0][0]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    home.directory(id="sess-aaaa000001", name="fix-login", agent_name="claude")
    home.directory(id="sess-aabb000002", agent_name="codex", stop_reason="error")
    (tmp_path / "scratch" / "folder").mkdir(parents=True)
    (tmp_path / "user" / "programs").mkdir()
    (tmp_path / "user" / "programs" / "agh").symlink_to(AGH)
    running = Shell(request.param, tmp_path / "scratch")
    yield running
    running.close()


WORDS = (
    ("agh sess", "agh session "),
    ("agh session status fix", "agh session status fix-login "),
    ("agh session status @l", "agh session status @last "),
    ("agh run --agent ec", "agh run --agent echo "),
    ("agh run --agent=ec", "agh run --agent=echo "),
    ("agh session events @last --type agent_m", "--type agent_message "),
    ("agh run --workspace fol", "agh run --workspace folder/"),
    ("agh run --file fol", "agh run --file folder/"),
    ("agh session attach --st", "agh session attach --steal "),
    ("~/programs/agh session status fi", "status fix-login "),
    ("NO_COLOR=1 agh session status fi", "status fix-login "),
    ("echo hello | agh session prompt fi", "| agh session prompt fix-login "),
)


def test_tab(shell: Shell) -> None:
    for typed, becomes in WORDS:
        shell.type(f"{CLEAR}{typed}\t")
        shell.sees(becomes)
    shell.type(f"{CLEAR}agh session status sess-\t")
    if shell.name != "fish":  # the common part first, the list with the next Tab
        shell.sees("sess-aa")
        shell.type("\t\t")
    shell.sees("sess-aaaa000001", "fix-login · claude · stopped", "sess-aabb000002", "codex · failed")


def test_names_that_need_quotes(shell: Shell, home: Home, tmp_path: Path) -> None:
    home.directory(id="sess-ccdd000003", name="two words: $(touch ran) `touch ran` 'it' %n")
    shell.type("agh session status two\t")
    shell.sees("two\\ words")
    shell.sees("%n")
    shell.type(" -o json\n")
    shell.sees('"sess-ccdd000003"')
    assert not (tmp_path / "scratch/ran").exists()
