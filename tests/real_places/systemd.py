"""A container that runs systemd: `python -m tests.real_places.systemd COMMAND...`

It boots one of podman, with this machine's programs, starts the user manager of root, runs the command here,
and removes the container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.real_places.engines import OPTIONS, Engine
from tests.support.build import ROOT
from tests.support.wait import wait_until

NAME = "agh-test-systemd"
FILES = ("passwd", "group", "nsswitch.conf", "pam.d", "security", "login.defs")


def plant_tree(tree: Path) -> None:
    """Make the tree of the image: empty, but for what the user manager's log-in reads."""
    for name in (
        "proc",
        "sys",
        "dev",
        "tmp",
        "usr",
        "run",
        "root",
        "var/log",
        "var/lib",
        "etc/systemd/system",
    ):
        (tree / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    for name in FILES:
        source = Path("/etc", name)
        if source.exists():
            (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / "etc" / name)
    (tree / "etc" / "machine-id").touch()
    (tree / "etc/systemd/system/default.target").symlink_to("/lib/systemd/system/multi-user.target")


def run(command: list[str]) -> int:
    """Run the command in the container; return its exit code."""
    engine = Engine("podman", ["podman", "--runtime", "runc"], "systemd")
    with tempfile.TemporaryDirectory() as folder:
        plant_tree(Path(folder, "tree"))
        engine.import_tree(Path(folder, "tree"))
    programs = dict.fromkeys(["/usr", sys.base_prefix])
    mounts = [word for path in programs for word in ("-v", f"{path}:{path}:ro")]
    try:
        box = ["--name", NAME, "--systemd=always", *OPTIONS, *mounts, "-v", f"{ROOT}:{ROOT}"]
        engine("run", "-d", *box, engine.image, "/lib/systemd/systemd")
        wait_until(
            lambda: engine("exec", NAME, "systemctl", "is-system-running", check=False) == "running", 60
        )
        engine("exec", NAME, "systemctl", "start", "user@0.service")
        within = ["exec", "-i", "-e", "XDG_RUNTIME_DIR=/run/user/0", "-w", os.getcwd(), NAME]
        return subprocess.run([*engine.command, *within, *command]).returncode
    finally:
        engine("rm", "-f", "-t", "0", NAME, check=False)
        engine("rmi", "-f", engine.image, check=False)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
