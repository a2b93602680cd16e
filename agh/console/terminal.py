"""What may be written to a terminal, and what the terminal can do.

Agent text cannot drive the terminal: agh.core.display.printable cleans it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from agh.core.display.printable import clean as clean
from agh.core.display.printable import clean_json as clean_json
from agh.core.display.printable import one_line as one_line

if TYPE_CHECKING:
    from agh.console.theme import Role


def display_width(text: str) -> int:
    """Return how many columns a cleaned text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut(text: str, width: int) -> str:
    """Cut a cleaned line to this many columns."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) > width - 1:
        text = text[: -max(1, (display_width(text) - width + 1) // 2)]
    return text + "…"


def wrap(text: str, width: int) -> list[str]:
    """Break a cleaned line before it is too wide: behind a ` · ` if possible, else between words."""
    lines: list[str] = []
    for part in text.replace(" · ", " ·\0").split("\0"):
        if lines and display_width(f"{lines[-1]} {part.rstrip()}") <= width:
            lines[-1] += f" {part}"
        else:
            lines += _wrap_words(part, width)
    return lines


def _wrap_words(text: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split(" "):
        if line and word and display_width(f"{line} {word}") > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def is_terminal() -> bool:
    return sys.stdout.isatty()


def is_fancy() -> bool:
    """Tell whether stdout is a terminal that can do more than plain text."""
    return is_terminal() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def has_colour() -> bool:
    if not is_fancy():
        return False
    from agh.console import theme

    return theme.name() != "none"


def width() -> int:
    columns = os.environ.get("COLUMNS", "")
    try:
        return int(columns) if columns.isdecimal() and int(columns) else os.get_terminal_size().columns or 80
    except OSError:
        return 80


def styled(text: str, role: Role) -> str:
    """Style text that has already been cleaned by what it is, if the terminal has colour."""
    if not text or not is_fancy():
        return text
    from agh.console import theme

    start = theme.sgr(role)
    return f"{start}{text}\x1b[0m" if start else text


def default_holder() -> str:
    """Return the default holder of a lease: this terminal, or this script and all its commands."""
    host = os.uname().nodename
    for fd in (0, 1, 2):
        try:
            return f"cli:{host}:{os.ttyname(fd)}"
        except OSError:
            continue
    return f"cli:{host}:{os.getsid(0)}"
