"""Values that people write in settings and profiles. Each function returns the value checked and converted,
or raises ValueError with a message for the user. Pure.
"""

from __future__ import annotations

import re
from typing import Any

PERMISSION_MODES = ("deny-all", "approve-reads", "approve-all")  # from the strictest to the loosest
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds(value: Any) -> float:
    """Return a time span in seconds. It is written as a number of seconds, or as 90s, 5m, 2h, 3d, 1w."""
    match = _SPAN.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match is None:
        raise ValueError(f"{value!r} is not a time span such as 30s, 5m, 2h")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def permission_mode(value: Any) -> str:
    """Return one of PERMISSION_MODES."""
    if value not in PERMISSION_MODES:
        raise ValueError(f"{value!r} is none of {', '.join(PERMISSION_MODES)}")
    return str(value)


def count(value: Any) -> int:
    """Return a whole number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def amount(value: Any) -> float:
    """Return a finite number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is not an amount")
    return float(value)


def text(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def tables(value: Any) -> dict[str, dict[str, Any]]:
    """Return named tables. What is in them is checked by the code that uses them."""
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ValueError("each is a table of its own, as in [places.NAME]")
    return value


def patterns(value: Any) -> list[re.Pattern[str]]:
    """Return a list of compiled regular expressions."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("it is a list of regular expressions")
    try:
        return [re.compile(item) for item in value]
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
