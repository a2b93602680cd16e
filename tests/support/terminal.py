"""A terminal with a command on it: what it prints is collected, and a person types."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import Any

from tests.support.live import Live
from tests.support.wait import PATIENCE


class Terminal:
    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master, self.process = master, process
        self.printed = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, text: str, limit: float = PATIENCE) -> None:
        """Wait until this was printed."""
        end = time.monotonic() + limit
        while text not in self.printed:
            assert time.monotonic() < end, f"{text!r} is not in {self.printed!r}"
            self._collect(0.1)

    def ends(self, limit: float = PATIENCE) -> int:
        """Wait for the command's end; its exit number."""
        end = time.monotonic() + limit
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it goes on: {self.printed!r}"
            self._collect(0.05)
        while self._collect(0):
            pass
        return self.process.returncode

    def _collect(self, patience: float) -> bool:
        if not select([self._master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux tells that nobody has the other end any more
            return False
        self.printed += data.decode(errors="replace")
        return bool(data)


@contextmanager
def on_a_terminal(live: Live, *args: object, **env: str) -> Iterator[Terminal]:
    """The program with a terminal for its stdin, stdout and stderr."""
    master, slave = pty.openpty()
    ends: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
    try:
        process = live.start(*args, env={"TERM": "dumb", "NO_COLOR": "1", **env}, **ends)
        os.close(slave)
        yield Terminal(master, process)
        process.kill()
        process.wait(PATIENCE)
    finally:
        os.close(master)
