"""A terminal with a command on it: what it prints is collected, and a person types."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from select import select
from typing import Any

from tests.support.live import Live
from tests.support.program import AGH, ALWAYS_EXEC, can_run_here, in_process_on
from tests.support.wait import PATIENCE, wait_until


def run_on_terminal(*args: object, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run the program with stdout and stderr on a terminal; return its exit number and what came out."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    with subprocess.Popen(
        [AGH, *map(str, args)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        try:
            out = read_to_end(ours)
        finally:
            os.close(ours)
            process.kill()
    return process.returncode, out.decode()


def show_on_terminal(*args: object, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Do as `run_on_terminal`, but in this process if that makes no difference."""
    words = [str(arg) for arg in args]
    environ = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    if ALWAYS_EXEC or not can_run_here(words, {"env": environ}):
        return run_on_terminal(*args, env=env)
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as pool, open(ours, "rb"):
        out = pool.submit(read_to_end, ours)
        with open(theirs, "wb") as terminal:
            code = in_process_on(terminal, *words, env=environ)
        return code, out.result().decode()


def read_to_end(fd: int) -> bytes:
    """Return everything that comes out of a terminal until nobody has its other side."""
    out, deadline = b"", time.monotonic() + PATIENCE
    while True:
        assert select([fd], [], [], max(0.0, deadline - time.monotonic()))[0], "the program hangs"
        data = _read(fd)
        if not data:
            return out
        out += data


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # EIO: how Linux says that nobody has the other side any more
        return b""


class Terminal:
    """A terminal and the command that runs on it."""

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

    def collect(self) -> None:
        """Take what has been printed by now, so that the command never waits for a reader."""
        while self._collect(0):
            pass

    def collects(self, limit: float = PATIENCE) -> None:
        """Wait until something more is printed."""
        assert self._collect(limit), f"nothing comes after {self.printed[-400:]!r}"

    def has_ended(self, patience: float) -> bool:
        """Collect what is printed for a while; tell whether the command has ended."""
        end = time.monotonic() + patience
        while self.process.poll() is None and time.monotonic() < end:
            self._collect(0.05)
        return self.process.poll() is not None

    def ends(self, limit: float = PATIENCE) -> int:
        """Wait for the command to end; return its exit number."""
        end = time.monotonic() + limit
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it is still running: {self.printed!r}"
            self._collect(0.05)
        while self._collect(0):
            pass
        return self.process.returncode

    def _collect(self, patience: float) -> bool:
        if not select([self._master], [], [], patience)[0]:
            return False
        data = _read(self._master)
        self.printed += data.decode(errors="replace")
        return bool(data)


@contextmanager
def open_terminal(live: Live, *args: object, **env: str) -> Iterator[Terminal]:
    """Run the program with a terminal for its stdin, stdout and stderr; yield the terminal."""
    master, slave = pty.openpty()
    streams: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
    try:
        process = live.start(*args, env={"TERM": "dumb", "NO_COLOR": "1", **env}, **streams)
        os.close(slave)
        yield Terminal(master, process)
        process.kill()
        process.wait(PATIENCE)
    finally:
        os.close(master)


def leave(terminal: Terminal) -> None:
    """Press Ctrl-D; again if it came before the prompt was there to read it."""

    def has_left() -> bool:
        with suppress(OSError):  # it has just ended
            terminal.type("\x04")
        return terminal.has_ended(0.5)

    wait_until(has_left, what="the end of the command")
    assert terminal.ends() == 0
