"""Times as people write and read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from agh.core.events import timestamp
from agh.errors import Usage

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def span(text: str, option: str) -> float:
    """Seconds in `90s`, `5m`, `2h`, `3d`, or a plain number of seconds."""
    match = _SPAN.fullmatch(text)
    if match:
        return float(match[1]) * _UNITS[match[2]]
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e10:
        raise Usage(f"{option}: {text!r} is not a time span", hint="write 30s, 5m, 2h or 3d")
    return seconds


def moment(text: str, option: str) -> str:
    """A timestamp from RFC 3339, or from how long ago it was."""
    if _SPAN.fullmatch(text):
        return timestamp(datetime.now(UTC) - timedelta(seconds=span(text, option)))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise Usage(
            f"{option}: {text!r} is not a time", hint=f"write {option} 5m, or {option} 2026-04-16T01:10:06Z"
        )
    return timestamp(when)


def age(at: str | None, now: datetime) -> str:
    """How long ago, in one unit: 5s, 12m, 3h, 4d."""
    try:
        seconds = (now - datetime.fromisoformat(at or "")).total_seconds()
    except ValueError:
        return "-"
    for unit in "wdhm":
        if seconds >= _UNITS[unit]:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{max(0, int(seconds))}s"
