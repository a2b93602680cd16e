"""What may be written to a terminal, and what the terminal can do.

Agent text cannot drive the terminal: control characters, escape sequences and characters that
reorder or hide text come out as visible escapes. Line feed and tab stay.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agh.console.theme import Role

# C0 but \t \n, DEL and C1; then bidi controls, line separators, invisible operators and tags.
_HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Escape everything in the text that could control a terminal, e.g. as `\\x1b`."""
    return _HOSTILE.sub(_escape, text.replace("\r\n", "\n")) if _HOSTILE.search(text) else text


def clean_json(text: str) -> str:
    """Escape the same characters in JSON text as JSON escapes, which keeps its meaning."""
    return _HOSTILE.sub(_escape_json, text) if _HOSTILE.search(text) else text


def one_line(text: str, width: int) -> str:
    """Clean the text, put it on one line and cut it to `width` characters."""
    if len(text) <= width and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # most texts; the rest takes five times as long
    text = clean(" ".join(text[: width * 4].split()))
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


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


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def default_holder() -> str:
    """Return the default holder of a lease: this terminal, or this script and all its commands."""
    host = os.uname().nodename
    for fd in (0, 1, 2):
        try:
            return f"cli:{host}:{os.ttyname(fd)}"
        except OSError:
            continue
    return f"cli:{host}:{os.getsid(0)}"
