"""What a far side finds on its PATH: the system's programs with one shell or another, or a busybox alone."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.build import ROOT

NAMES = ("dash", "bash", "busybox", "busybox-musl")
BUILT = ROOT / "build" / "userlands"  # by .ci/userlands


class Userland(NamedTuple):
    """A PATH on which `sh` is the shell to test."""

    name: str
    path: str

    @property
    def shell(self) -> str:
        program = shutil.which("sh", path=self.path)
        assert program
        return program

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "PATH": self.path}

    @property
    def login(self) -> str:
        """Return the ForceCommand of an sshd whose users get this userland."""
        return f'PATH={shlex.quote(self.path)} exec sh -c "$SSH_ORIGINAL_COMMAND"'


def install(name: str, folder: Path) -> Userland:
    """Make a userland in the folder."""
    program = find_program(name)
    folder.mkdir()
    if name.startswith("busybox"):
        subprocess.run([program, "--install", "-s", str(folder)], check=True, timeout=20)
        return Userland(name, str(folder))
    (folder / "sh").symlink_to(program)
    return Userland(name, f"{folder}:{os.environ['PATH']}")


def find_program(name: str) -> str:
    """Return the path of a shell or a busybox; skip the test if it is not there."""
    program = shutil.which(name, path=f"{os.environ['PATH']}:{BUILT}")
    if program is None:
        pytest.skip(
            f"needs {name}: make userlands" if "-" in name else f"needs {name}: apt-get install {name}"
        )
    return program
