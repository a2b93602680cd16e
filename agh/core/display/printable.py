"""Text that cannot drive a terminal: control characters, escape sequences and characters that reorder or hide
text come out as visible escapes. Line feed and tab stay. Pure.
"""

from __future__ import annotations

import re
from functools import cache

# C0 but \t \n, DEL and C1; then bidi controls, line separators, invisible operators and tags.
_HOSTILE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Escape everything in the text that could control a terminal, e.g. as `\\x1b`."""
    hostile = _hostile()
    return hostile.sub(_escape, text.replace("\r\n", "\n")) if hostile.search(text) else text


def clean_json(text: str) -> str:
    """Escape the same characters in JSON text as JSON escapes, which keeps its meaning."""
    hostile = _hostile()
    return hostile.sub(_escape_json, text) if hostile.search(text) else text


@cache
def _hostile() -> re.Pattern[str]:
    """Compile the pattern when it is needed: JSON in a pipe is not cleaned (0.4 ms)."""
    return re.compile(_HOSTILE)


def one_line(text: str, width: int) -> str:
    """Clean the text, put it on one line and cut it to `width` characters."""
    if len(text) <= width and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # most texts; the rest takes five times as long
    text = clean(" ".join(text[: width * 4].split()))
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
