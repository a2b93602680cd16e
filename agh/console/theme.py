"""The styles of everything that agh prints on a terminal, by what they mean. Nothing else names a colour.

There are three palettes: `dark` and `light` for backgrounds that are known, and `basic`, the terminal's own
16 colours, for all others. The setting `ui.theme` decides; `auto` goes by COLORFGBG, or by the terminal's
answer if the command is interactive (`ask_terminal`). NO_COLOR turns every style off.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Literal

Role = Literal[
    "title",
    "muted",
    "error",
    "warning",
    "success",
    "note",
    "prompt",
    "thought",
    "match",
    "added",
    "removed",
    "hunk",
    "code",
    "keyword",
    "string",
    "comment",
    "number",
    "function",
]
# Words of SGR, and a colour by its number: below 16 the terminal's own, above it the same everywhere.
_STYLES: dict[Role, dict[str, str]] = {
    "title": {"basic": "bold", "dark": "bold", "light": "bold"},
    "muted": {"basic": "dim", "dark": "246", "light": "242"},
    "error": {"basic": "1", "dark": "210", "light": "124"},
    "warning": {"basic": "3", "dark": "221", "light": "94"},
    "success": {"basic": "2", "dark": "114", "light": "28"},
    "note": {"basic": "6", "dark": "80", "light": "24"},
    "prompt": {"basic": "bold 6", "dark": "bold 80", "light": "bold 24"},
    "thought": {"basic": "dim italic", "dark": "italic 246", "light": "italic 242"},
    "match": {"basic": "bold 3", "dark": "bold 221", "light": "bold 94"},
    "added": {"basic": "2", "dark": "114", "light": "28"},
    "removed": {"basic": "1", "dark": "210", "light": "124"},
    "hunk": {"basic": "6", "dark": "80", "light": "24"},
    "code": {"basic": "6", "dark": "180", "light": "88"},
    "keyword": {"basic": "5", "dark": "176", "light": "90"},
    "string": {"basic": "2", "dark": "114", "light": "28"},
    "comment": {"basic": "dim italic", "dark": "italic 246", "light": "italic 242"},
    "number": {"basic": "6", "dark": "80", "light": "24"},
    "function": {"basic": "bold", "dark": "111", "light": "25"},
}
_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3"}
_FIRST_BRIGHT, _FIRST_FIXED = 8, 16
_answer: str | None = None  # of the terminal, about its background


def name() -> str:
    """Return which palette is used: `none`, `basic`, `dark` or `light`."""
    if os.environ.get("NO_COLOR"):
        return "none"
    setting = _read_setting()
    if setting == "auto":
        setting = _from_environment() or _answer or "basic"
    return "basic" if setting != "none" and not _has_256_colours() else setting


def ask_terminal() -> None:
    """Ask the terminal for its background unless that is known.

    Interactive commands call this before they print.
    """
    global _answer
    from agh.console import background, terminal

    if _answer is None and terminal.has_colour() and _read_setting() == "auto" and not _from_environment():
        _answer = background.ask()


def style(role: Role) -> str:
    """Return a style of the current palette as text, such as `bold 114`; empty for no style."""
    return _STYLES[role].get(name(), "") if role in _STYLES else ""


def sgr(role: Role) -> str:
    """Return the escape sequence that starts a style; empty for no style."""
    codes = [_ATTRIBUTES.get(word) or _colour_code(int(word)) for word in style(role).split()]
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def diff_role(line: str) -> Role | None:
    """Return the style of a line of a unified diff; None if it is one of the context."""
    if line.startswith(("--- ", "+++ ")):
        return "muted"
    roles: dict[str, Role] = {"+": "added", "-": "removed", "@": "hunk"}
    return roles.get(line[:1])


def palettes() -> dict[Role, dict[str, str]]:
    """Return every style of every palette."""
    return _STYLES


def _colour_code(number: int) -> str:
    if number >= _FIRST_FIXED:
        return f"38;5;{number}"
    return str(30 + number) if number < _FIRST_BRIGHT else str(90 + number - _FIRST_BRIGHT)


def _has_256_colours() -> bool:
    return bool(os.environ.get("COLORTERM")) or "256color" in os.environ.get("TERM", "")


def _from_environment() -> str | None:
    """Return what COLORFGBG says of the background: its last number is one of the 16 colours."""
    colour = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if not colour.isdecimal() or int(colour) >= _FIRST_FIXED:
        return None
    return "light" if int(colour) in (7, *range(9, _FIRST_FIXED)) else "dark"


def _read_setting() -> str:
    """Return `ui.theme`; `auto` if the settings cannot be read, which other commands report."""
    from agh.errors import AghError
    from agh.home import home_path

    try:
        path = os.path.join(home_path(), "config.toml")
        return _setting_in(path, os.stat(path).st_mtime_ns)
    except (AghError, OSError):
        return "auto"


@lru_cache(maxsize=1)
def _setting_in(path: str, changed_at: int) -> str:
    """Return the setting in a file as it was at that time. Import the settings only if it may be there."""
    if not os.path.isfile(path):
        return "auto"
    with open(path, "rb") as file:
        if b"theme" not in file.read():
            return "auto"
    from agh import config

    return str(config.load()["ui.theme"])
