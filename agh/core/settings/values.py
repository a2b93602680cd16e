"""Values that people write in settings and profiles. Each function returns the value checked and converted,
or raises ValueError with a message for the user. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agh.core.rules import Rule
    from agh.core.settings.hooks import Hook
    from agh.core.settings.notify import Notify

PERMISSION_MODES = ("deny-all", "approve-reads", "approve-all")  # from the strictest to the loosest
THEMES = ("auto", "light", "dark", "none")
_SPAN = r"(\d+(?:\.\d+)?)\s*([smhdw]?)"
AUTO, UNATTENDED = "auto", 300.0  # seconds that a request waits if nobody is there to answer it
SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds(value: Any) -> float:
    """Return a time span in seconds. It is written as a number of seconds, or as 90s, 5m, 2h, 3d, 1w."""
    match = re.fullmatch(_SPAN, str(value)) if isinstance(value, str | int | float) else None
    if match is None:
        raise ValueError(f"{value!r} is not a time span such as 30s, 5m, 2h")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def request_timeout(value: Any) -> float | None:
    """Return how many seconds a request waits: 0 never ends, None (`auto`) depends on who is there."""
    return None if value == AUTO else seconds(value)


def permission_mode(value: Any) -> str:
    """Return one of PERMISSION_MODES."""
    if value not in PERMISSION_MODES:
        raise ValueError(f"{value!r} is not one of {', '.join(PERMISSION_MODES)}")
    return str(value)


def theme(value: Any) -> str:
    """Return one of THEMES."""
    if value not in THEMES:
        raise ValueError(f"{value!r} is not one of {', '.join(THEMES)}")
    return str(value)


def limit_reaction(value: Any) -> str:
    """Return what to do with a prompt that meets a usage limit: `park` or `fail`."""
    if value not in ("park", "fail"):
        raise ValueError(f"{value!r} is neither park nor fail")
    return str(value)


def count(value: Any) -> int:
    """Return a whole number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a whole number (0 or greater)")
    return value


def amount(value: Any) -> float:
    """Return a finite number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is not a number (0 or greater)")
    return float(value)


def text(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    return value


def tables(value: Any) -> dict[str, dict[str, Any]]:
    """Return named tables. What is in them is checked by the code that uses them."""
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ValueError("each place must be a table: [places.NAME]")
    return value


def patterns(value: Any) -> list[re.Pattern[str]]:
    """Return a list of compiled regular expressions."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("must be a list of regular expressions")
    try:
        return [re.compile(item) for item in value]
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def read_servers(value: Any) -> list[dict[str, Any]]:
    """Return a list of MCP servers."""
    if value == []:  # nearly always, so the import is skipped
        return []
    from agh.core.settings import mcp

    return mcp.read_servers(value)


def read_rules(value: Any) -> list[Rule]:
    """Return a list of permission rules."""
    if value == []:  # nearly always, so the import is skipped
        return []
    from agh.core import rules

    return rules.read_rules(value)


def read_hooks(value: Any) -> list[Hook]:
    """Return a list of hooks."""
    if value == []:  # nearly always, so the import is skipped
        return []
    from agh.core.settings import hooks

    return hooks.read_hooks(value)


def read_notify(value: Any) -> Notify | None:
    """Return who is notified, and of what."""
    if value == {}:  # nearly always, so the import is skipped
        return None
    from agh.core.settings import notify

    return notify.read_notify(value)


def command_words(value: Any) -> tuple[str, tuple[str, ...]]:
    """Return a command for people and for the system: a line for the shell, or a list of words.

    Both are empty if it is neither.
    """
    if isinstance(value, str):
        return value, ("/bin/sh", "-c", value) if value else ()
    words = value if isinstance(value, list) and all(isinstance(word, str) for word in value) else []
    if not words or not words[0]:
        return "", ()
    from shlex import join  # few have such a command

    return join(words), tuple(words)


# The settings of parking: default, how to read a value, help text.
PARKING: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "session.limits.on_usage_limit": (
        "fail",
        limit_reaction,
        "at a usage limit that has a reset time: fail, or park the prompt until then",
    ),
    "session.limits.max_windows": (5, count, "park a prompt at most this many times; 0 means no limit"),
    "session.limits.jitter": (
        "60s",
        seconds,
        "after the reset, wait a random time up to this before sending a parked prompt",
    ),
    "session.limits.continue_with": (
        "Continue where you stopped.",
        text,
        "prompt to send after the reset if the agent had started to work; empty resends the original",
    ),
}

# The settings of what people see, in the same form.
DISPLAY: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "ui.theme": (
        "auto",
        theme,
        "colours for the terminal: auto, light, dark or none; only in your own config.toml",
    ),
}
