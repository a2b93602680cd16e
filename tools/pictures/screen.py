"""A program on a real pseudo-terminal, and an emulator (pyte) that knows what a user would see.

The terminal says that its background is light or dark, or does not answer. Every wait is bounded.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from select import select

import pyte

PATIENCE = 30.0  # seconds
BACKGROUNDS = {"dark": b"0000/0000/0000", "light": b"ffff/ffff/ffff"}
_QUESTION = b"\x1b]11;?"
# What pyte would print instead of obeying: OSC, and private modes that it does not know.
_UNKNOWN = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[<>=?][0-9;]*[uqpcn]|\x1b\[c")


class Screen:
    """A terminal of a size. `raw` is all that was printed; `background` is `light`, `dark` or None."""

    def __init__(self, columns: int, rows: int, background: str | None) -> None:
        self.emulator = pyte.Screen(columns, rows)
        self.raw = b""
        self._stream = pyte.ByteStream(self.emulator)
        self._background = background
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def lines(self) -> list[str]:
        """Return what is on the screen, without blanks at the ends."""
        return [line.rstrip() for line in self.emulator.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def printed(self) -> str:
        """Return everything that was printed, without escape sequences and carriage returns."""
        plain = re.sub(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]", "", self.raw.decode())
        return plain.replace("\r\n", "\n")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def shows(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.waits(lambda: text in self.text, text)

    def ends(self) -> int:
        """Wait for the program to end; return its exit number."""
        assert self.process is not None
        process = self.process
        self.waits(lambda: process.poll() is not None, "the end of the program")
        while self.collect(0):
            pass
        return process.returncode

    def close(self) -> None:
        """End the program."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
        os.close(self._master)

    def waits(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something holds, while the screen is kept up to date."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what!r} does not come:\n{self.text}"
            self.collect(0.05)

    def collect(self, patience: float) -> bool:
        """Take what the program prints within this time; return False if that is nothing."""
        if not select([self._master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # nobody has the other side any more
            return False
        self.raw += data
        if _QUESTION in data and self._background:
            colour = BACKGROUNDS[self._background]
            os.write(self._master, b"\x1b]11;rgb:" + colour + b"\x1b\\")
        if _QUESTION in data:
            os.write(self._master, b"\x1b[?62;22c")
        self._stream.feed(_UNKNOWN.sub(b"", data))
        return bool(data)


def _own_terminal() -> None:
    """Make standard input the terminal that the program belongs to."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def on_screen(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    columns: int = 80,
    rows: int = 24,
    background: str | None = None,
    cwd: str | None = None,
) -> Iterator[Screen]:
    """Run a program with all its streams on a terminal of its own; yield the terminal."""
    screen = Screen(columns, rows, background)
    environ = {**env, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "COLORFGBG", "NO_COLOR", "COLORTERM"):
        if name not in env:
            environ.pop(name, None)
    slave = screen.slave
    try:
        screen.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - nothing here has threads
        )
        os.close(slave)
        yield screen
    finally:
        screen.close()
