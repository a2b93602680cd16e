"""What the chat changes about an application of prompt_toolkit: how it reads, writes and takes a new size."""

from __future__ import annotations

import fcntl
import io
import re
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.output.vt100 import Vt100_Output

# What a terminal answers to the question for its background and its kind: on a slow line after we gave up.
_ANSWERS = re.compile(r"\x1b\]11;rgba?:[0-9a-fA-F/]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")


class Output(Vt100_Output):
    """Writes bursts as one piece, and leaves bracketed paste on until the end."""

    is_held = False

    def flush(self) -> None:
        if not self.is_held:
            super().flush()

    def disable_bracketed_paste(self) -> None:
        """Do nothing: see `Screen.run`."""


class Input(Vt100Input):
    """Reads keys. Enter and Ctrl-D mean the same if they were pressed before the chat had the terminal.

    A terminal in line mode hands them over as a line feed and a zero.
    """

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self._early = 0  # bytes that were typed in line mode and are not read yet

    def read_keys(self) -> list[KeyPress]:
        text = _ANSWERS.sub("", self.stdin_reader.read())
        if self._early:
            early, text = text[: self._early], text[self._early :]
            self._early -= len(early.encode())
            text = early.translate({0: "\x04", ord("\n"): "\r"}) + text
        self.vt100_parser.feed(text)
        keys, self._buffer = self._buffer, []
        return keys

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            self._count_early()
            yield

    @contextmanager
    def cooked_mode(self) -> Iterator[None]:
        try:
            with super().cooked_mode():
                yield
        finally:
            self._count_early()

    def _count_early(self) -> None:
        """Count what is there when line mode has just ended; before that, incomplete lines do not count."""
        try:
            self._early = int.from_bytes(
                fcntl.ioctl(self.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder
            )
        except OSError:
            self._early = 0


class ResizingApplication(Application[Any]):
    """Calls `on_width` before it draws at another width than the time before."""

    on_width: Callable[[int], None]
    _columns = 0  # for which it drew last

    def follow_width(self) -> None:
        """Note the width of the terminal; if it has changed, nothing is where it was drawn."""
        before, self._columns = self._columns, self.output.get_size().columns
        if before not in (0, self._columns):
            self.on_width(before)

    def _redraw(self, render_as_done: bool = False) -> None:
        if self._is_running and not self._running_in_terminal:
            self.follow_width()
        super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        self.follow_width()
        super()._on_resize()

    def rows_above_cursor(self, width: int) -> int:
        """Return how many rows of what is drawn are above the cursor if it is wrapped at this width."""
        screen, cursor = self.renderer.last_rendered_screen, self.renderer._cursor_pos
        if screen is None:
            return 0
        wrapped = cursor.x // width
        for y in range(cursor.y):
            used = [x for x, char in screen.data_buffer[y].items() if char.char.strip()]
            wrapped += max(used, default=0) // width
        return cursor.y + wrapped


class Stream(io.TextIOBase):
    """Passes lines to `write`, and at once to `notify` what rings or pops up without taking any room."""

    def __init__(self, write: Callable[[str], None], notify: Callable[[str], None]) -> None:
        self._write, self._notify, self._line = write, notify, ""

    def write(self, text: str) -> int:
        if text.endswith(("\a", "\x1b\\")):
            self._notify(text)
            return len(text)
        lines, newline, self._line = (self._line + text).rpartition("\n")
        if newline:
            self._write(lines + "\n")
        return len(text)

    def flush(self) -> None:
        """Do nothing: what is not a line yet waits for its end."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.__stdout__.fileno()  # type: ignore[union-attr]
