"""A real notification daemon on a D-Bus of its own: what it gets from agh."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.permissions import STAYS, raw_request
from tests.support.wait import wait_until

MOCK = Path(os.environ.get("DBUSMOCK", Path(sys.executable).parents[1] / "dbusmock"))
PYTHON = "/usr/bin/python3"  # of the system: it has the bindings of D-Bus


class Daemon:
    """The bus's address, and the file in which the daemon notes every call."""

    def __init__(self, address: str, log: Path) -> None:
        self.address, self.log = address, log

    def gets(self, text: str) -> None:
        wait_until(lambda: text in self.log.read_text(), what=text)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    has_bindings = subprocess.run([PYTHON, "-c", "import dbus, gi"], capture_output=True).returncode == 0
    if not (MOCK.is_dir() and has_bindings and shutil.which("dbus-daemon")):
        pytest.skip("needs dbus-daemon, python3-dbus, python3-gi and `make desktop`")
    log = tmp_path / "calls"
    words = ["dbus-daemon", "--session", "--nofork", "--print-address"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as bus:
        assert bus.stdout
        address = bus.stdout.readline().strip()
        env = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": address, "PYTHONPATH": str(MOCK)}
        command = [PYTHON, "-m", "dbusmock", "--logfile", str(log), "--template", "notification_daemon"]
        try:
            with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as mock:
                try:
                    wait_until(lambda: _is_there(address), what="the daemon")
                    yield Daemon(address, log)
                finally:
                    mock.kill()
        finally:
            bus.kill()


def _is_there(address: str) -> bool:
    name = "org.freedesktop.Notifications"
    words = ["dbus-send", f"--bus={address}", "--print-reply", f"--dest={name}", f"/{name.replace('.', '/')}"]
    return subprocess.run([*words, f"{name}.GetServerInformation"], capture_output=True).returncode == 0


def test_the_desktop_is_notified(live: Live, daemon: Daemon) -> None:
    env = {"DBUS_SESSION_BUS_ADDRESS": daemon.address}
    live.configure('[notify]\ndesktop = true\ngrace = "0s"\n')
    assert live.agh("notify", "test", env=env).stdout == "desktop  sent\n"
    daemon.gets('Notify "agh" 0 "" "agh notify test"')
    session = live.new(args=("--name", "work"), env=env)
    session.send(raw_request({"kind": "execute", "rawInput": {"command": 'echo "<b>é</b>"'}}) + STAYS)
    daemon.gets("asks for permission")
    assert "&lt;b&gt;é&lt;/b&gt;" in daemon.log.read_text()
