"""A real sshd on loopback, in a directory of its own, on a high port; and the name `box` for it."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.processes import children_of
from tests.support.wait import wait_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
# A quick key exchange, and a bash that does not read the user's .bashrc, as it does behind sshd at level 1:
# a connection takes a fifth of the time.
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
KexAlgorithms curve25519-sha256
SetEnv SHLVL=2
"""


class Wire:
    """The server, and what runs behind it."""

    def __init__(self, folder: Path, port: int, pid: int) -> None:
        self.folder, self.port, self.pid = folder, port, pid
        known_hosts = f"-oUserKnownHostsFile={folder}/known"
        key = [
            "-i",
            f"{folder}/user",
            "-oIdentitiesOnly=yes",
            "-oStrictHostKeyChecking=accept-new",
            known_hosts,
        ]
        self.options = ["-F", "none", "-p", str(port), *key]

    def name(self, live: Live, name: str = "box", **more: object) -> None:
        """Give the place a name in the settings."""
        fields = {"on": f"ssh:{getpass.getuser()}@127.0.0.1", "options": self.options, **more}
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        live.configure("\n".join([f"[places.{name}]", *lines, ""]))

    def connections(self) -> list[int]:
        return children_of(self.pid)

    def behind(self) -> list[int]:
        """Return the pids of everything that runs below the connections."""
        pids, roots = [], self.connections()
        while roots:
            with suppress(OSError):
                below = children_of(roots.pop())
                pids += below
                roots += below
        return pids

    def cut(self, number: int = signal.SIGKILL) -> None:
        """Cut every connection, as a network would: the far side is not told, its pipes just end."""
        for pid in self.connections():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def serving(folder: Path, login: str = "") -> Iterator[Wire]:
    """Run the server for the block. `login` is what it runs instead of a user's command, if not that."""
    if SSHD is None or not shutil.which("ssh"):
        pytest.skip("needs an sshd: apt-get install openssh-server")
    if not os.geteuid():
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where Debian's sshd, as root, wants to be
    folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL, timeout=20)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    forced = f"ForceCommand {login}\n" if login else ""
    (folder / "config").write_text(CONFIG.format(folder=folder, port=port) + forced)
    log = folder / "log"
    server = subprocess.Popen(
        [SSHD, "-D", "-f", str(folder / "config"), "-E", str(log)], stdin=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: log.exists() and "listening" in log.read_text(), what="sshd listens")
        yield Wire(folder, port, server.pid)
    finally:
        for pid in children_of(server.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.terminate()
        server.wait(10)
