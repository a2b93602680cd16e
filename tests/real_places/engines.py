"""Podman and docker, and images for them that hold one userland each and nothing else.

An image is a bare tree, because no registry may be at hand. Python and the echo agent are mounted from this
machine; in a busybox image they bring the C library that they need, and the userland does not use it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import agh_echo
import pytest

from tests.support.processes import is_alive
from tests.support.userland import find_program
from tests.support.wait import wait_until

USERLANDS = {"gnu": "", "busybox": "busybox-static", "musl": "busybox-musl"}
OPTIONS = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


@dataclass
class Engine:
    """An engine that runs, and the image of a userland in it."""

    name: str
    command: list[str]
    userland: str
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def image(self) -> str:
        return f"localhost/agh-{self.userland}:test"

    def __call__(self, *args: str, check: bool = True) -> str:
        result = subprocess.run(
            [*self.command, *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **self.environ},
        )
        assert not check or result.returncode == 0, result.stderr
        return result.stdout.strip()

    def mounts(self, *folders: Path | str) -> list[str]:
        """Return the options that mount Python and the agent read-only, and `folders` as they are."""
        programs = _list_gnu() if self.userland == "gnu" else _list_python()
        shown = [f"{path}:{path}:ro" for path in dict.fromkeys(map(str, programs))]
        return [word for path in (*shown, *(f"{path}:{path}" for path in folders)) for word in ("-v", path)]

    def containers(self) -> list[str]:
        """Return the names of the containers that sessions have."""
        names = self("ps", "-a", "--format", "{{.Names}}").split()
        return [name for name in names if name.startswith("agh-")]

    def pids_in(self, container: str) -> list[int]:
        """Return the pids, on this machine, of what runs in a container."""
        words = ["top", container, "hpid"] if self.name == "podman" else ["top", container, "-eo", "pid"]
        pids = [int(pid) for pid in self(*words).split() if pid.isdigit()]
        return [pid for pid in pids if is_alive(pid)]  # a container's first process may reap no others

    def import_tree(self, tree: Path) -> None:
        """Make the image from a tree."""
        packed = subprocess.run(["tar", "-C", str(tree), "-c", "."], check=True, capture_output=True).stdout
        environ = {**os.environ, **self.environ}
        argv = [*self.command, "import", "-", self.image]
        subprocess.run(argv, input=packed, check=True, capture_output=True, env=environ)


def _list_gnu() -> list[Path | str]:
    return ["/usr", sys.base_prefix, Path(sys.prefix), Path(agh_echo.__file__).parents[1]]


def _list_python() -> list[Path | str]:
    """Return what Python needs, without a directory that has other programs too."""
    program = os.path.realpath(sys.executable)
    linked = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", linked)
    folders = [os.path.dirname(library) for library in libraries]
    base = sys._base_executable  # type: ignore[attr-defined]
    programs = [program, base] if os.path.dirname(program) == "/usr/bin" else [os.path.dirname(program)]
    library = os.path.dirname(os.__file__)
    return [*programs, library, *folders, Path(sys.prefix), Path(agh_echo.__file__).parents[1]]


def plant_tree(tree: Path, userland: str) -> None:
    """Make the tree of an image."""
    for name in ("proc", "sys", "dev", "etc", "tmp"):
        (tree / name).mkdir(parents=True)
    if userland == "gnu":
        (tree / "usr").mkdir()
        for name in ("bin", "sbin", "lib", "lib64"):
            (tree / name).symlink_to(f"usr/{name}")
        return
    (tree / "bin").mkdir()
    shutil.copy(find_program(USERLANDS[userland]), tree / "bin" / "busybox")
    subprocess.run(["chroot", str(tree), "/bin/busybox", "--install", "-s", "/bin"], check=True, timeout=20)


@contextmanager
def running(name: str, folder: Path) -> Iterator[Engine]:
    """Run an engine for the block; skip the test if this machine has none."""
    packages = {"podman": ("podman", "runc"), "docker": ("docker", "dockerd", "containerd", "runc")}[name]
    missing = [program for program in packages if not shutil.which(program, path=PATH)]
    if os.geteuid() or missing:
        pytest.skip(f"needs root and {', '.join(missing)}: apt-get install podman runc docker.io")
    if name == "podman":
        yield Engine(name, ["podman", "--runtime", "runc"], "")
    else:
        with _serving_docker(folder) as environ:
            yield Engine(name, ["docker"], "", environ)


@contextmanager
def _serving_docker(folder: Path) -> Iterator[dict[str, str]]:
    """Run a dockerd with everything of its own: no network, no rules, no state that others see."""
    folder.mkdir(parents=True)
    own = [f"--{name}={folder}/{name}" for name in ("data-root", "exec-root", "pidfile")]
    quiet = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"]
    environ = {"DOCKER_HOST": f"unix://{folder}/socket"}
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(
            ["dockerd", f"--host={environ['DOCKER_HOST']}", *own, *quiet],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": PATH},
        )
    try:
        wait_until(lambda: b"API listen on" in (folder / "log").read_bytes(), 60, what="dockerd listens")
        yield environ
    finally:
        daemon.terminate()
        daemon.wait(30)
