"""The end of what was printed, to print it again where a terminal of another width has garbled it."""

from __future__ import annotations

import os
import re
from collections import deque

from agh.console import terminal

MOST_LINES = 300  # more than fit on a screen
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Tail:
    """The last lines that were printed, with their colours."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def add(self, text: str) -> None:
        """Note text that was printed; it ends with a line feed."""
        self._lines.extend(text.split("\n")[:-1])

    def rows(self, width: int) -> int:
        """Return how many rows all lines take."""
        return sum(_rows(line, width) for line in self._lines)

    def fitting(self, width: int, rows: int) -> str:
        """Return the last lines that take at most so many rows."""
        lines: list[str] = []
        for line in reversed(self._lines):
            rows -= _rows(line, width)
            if rows < 0:
                break
            lines.append(line)
        return "".join(f"{line}\n" for line in reversed(lines))


def reflows() -> bool:
    """Tell whether the terminal rewraps its lines when its width changes; nearly all do."""
    term = os.environ.get("TERM", "")
    is_screen = term.startswith("screen") and not os.environ.get("TMUX")
    return not (os.environ.get("XTERM_VERSION") or term.startswith("linux") or is_screen)


def _rows(line: str, width: int) -> int:
    return max(1, -(-terminal.display_width(_STYLES.sub("", line)) // width))
