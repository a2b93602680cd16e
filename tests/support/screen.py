"""A terminal with a command on it, seen as a person sees it: a screen of characters, with its scrollback."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from select import select
from typing import Any

import pyte

from tests.support.live import Live
from tests.support.wait import PATIENCE

CTRL_C, CTRL_D, CTRL_J, CTRL_O, CTRL_Z, ALT_ENTER = "\x03", "\x04", "\n", "\x0f", "\x1a", "\x1b\r"
PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"
PASTE_MODE = 2004 << 5  # as pyte counts private modes
HISTORY = 5000  # lines above the screen


class Screen:
    """What a terminal shows, and its keyboard."""

    def __init__(self, master: int, process: Any, columns: int, lines: int) -> None:
        self.process, self._master = process, master
        self._screen = pyte.HistoryScreen(columns, lines, history=HISTORY)
        self._screen.write_process_input = self.type  # what the terminal itself answers
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""  # everything that was written
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without spaces at their ends."""
        if self._screen.dirty:  # to draw every cell takes long, and most waits look at an unchanged screen
            self._lines = [line.rstrip() for line in self._screen.display]
            self._screen.dirty.clear()
        return self._lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def cells(self) -> list[pyte.screens.Char]:
        """Return every character that is not a space, with its colours."""
        rows = (self._screen.buffer[y] for y in range(self._screen.lines))
        return [cell for row in rows for cell in row.values() if cell.data.strip()]

    @property
    def history(self) -> str:
        """Return what has left the screen at its top, and what is on it."""
        width = self._screen.columns
        above = ["".join(line[x].data for x in range(width)).rstrip() for line in self._screen.history.top]
        return "\n".join([*above, *self.lines])

    @property
    def takes_pastes(self) -> bool:
        return PASTE_MODE in self._screen.mode

    @property
    def has_cursor(self) -> bool:
        return not self._screen.cursor.hidden

    def colours(self, text: str) -> set[str]:
        """Return the colours of a text that is on the screen."""
        for y, line in enumerate(self._screen.display):
            if (x := line.find(text)) >= 0:
                return {self._screen.buffer[y][x + offset].fg for offset in range(len(text))}
        raise AssertionError(f"{text!r} is not in\n{self.text}")

    def paste(self, text: str) -> None:
        """Paste a text as terminals do for a program that takes pastes."""
        assert self.takes_pastes
        data = f"{PASTE_START}{text}{PASTE_END}".encode().replace(b"\n", b"\r")
        while data:
            self.collect(0)
            data = data[os.write(self._master, data[:512]) :]

    def selected(self) -> str:
        """Return the text in reverse video."""
        width = self._screen.columns
        for y in range(self._screen.lines):
            row = self._screen.buffer[y]
            if row[0].reverse:
                return "".join(row[x].data for x in range(width)).rstrip()
        return ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Change the size. Rows below the cursor go first, as in terminals; pyte takes those at the top."""
        spare = min(self._screen.lines - lines, self._screen.lines - 1 - self._screen.cursor.y)
        if spare > 0:
            self._screen.save_cursor()
            self._screen.cursor_position(1, 1)
            self._screen.insert_lines(spare)
            self._screen.restore_cursor()
        self._screen.resize(lines, columns)
        set_size(self._master, columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def shows(self, *texts: str, limit: float = PATIENCE) -> None:
        """Wait until all these texts are on the screen."""
        self.awaits(lambda: all(text in self.text for text in texts), limit, texts)

    def hides(self, text: str, limit: float = PATIENCE) -> None:
        """Wait until this text is no longer on the screen."""
        self.awaits(lambda: text not in self.text, limit, f"not {text}")

    def awaits(self, condition: Callable[[], object], limit: float = PATIENCE, what: object = "") -> None:
        """Wait until the screen is as it should be."""
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, f"waited for {what or condition} in vain:\n{self.text}"
            self.collect(0.05)

    def ends(self, limit: float = PATIENCE) -> int:
        """Wait for the command to end; return its exit number."""
        self.awaits(lambda: self.process.poll() is not None, limit, "the end")
        while self.collect(0):
            pass
        return int(self.process.returncode)

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self._master >= 0:
            self.hang_up()

    def collect(self, patience: float) -> bool:
        """Take what the command prints within this time; return False if that is nothing."""
        if not select([self._master], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # nobody has the other side any more
            time.sleep(min(patience, 0.01))
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def set_size(fd: int, columns: int, lines: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextmanager
def open_screen(
    live: Live,
    *args: object,
    columns: int = 80,
    lines: int = 24,
    executable: str | None = None,
    **env: str,
) -> Iterator[Screen]:
    """Run the program, or another `executable`, on a terminal of this size; yield what it shows."""
    master, slave = pty.openpty()
    set_size(slave, columns, lines)
    streams: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
    environ = {"TERM": "xterm-256color", "COLUMNS": "", **env}

    def control() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that the end of the terminal is a hangup

    process = live.start(*args, env=environ, preexec_fn=control, executable=executable, **streams)
    os.close(slave)
    screen = Screen(master, process, columns, lines)
    try:
        yield screen
    finally:
        screen.close()
        process.kill()
        process.wait(PATIENCE)


def open_chat(live: Live, *args: object, **options: Any) -> AbstractContextManager[Screen]:
    """Run the program on a terminal that does not wrap its lines anew when its width changes, as xterm."""
    environ = {"XTERM_VERSION": "XTerm(390)", "LINES": "", "NO_COLOR": ""}
    return open_screen(live, *args, **{**environ, **options})
