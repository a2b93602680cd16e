"""Times as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agh.core.events import timestamp
from agh.core.values import seconds
from agh.errors import Usage

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def span(text: str, option: str) -> float:
    """Seconds in `90s`, `5m`, `2h`, `3d`, or a plain number of seconds."""
    try:
        return seconds(text)
    except ValueError as error:
        raise Usage(f"{option}: {error}", hint="write 30s, 5m, 2h or 3d") from None


def moment(text: str, option: str) -> str:
    """A timestamp from RFC 3339, or from how long ago it was."""
    when = None
    try:
        if text[-1:] in _UNITS and text[:1].isdigit():
            when = datetime.now(UTC) - timedelta(seconds=span(text, option))
        else:
            when = (
                datetime.fromisoformat(text).astimezone(UTC) if datetime.fromisoformat(text).tzinfo else None
            )
    except (ValueError, OverflowError):
        pass
    if when is None:
        raise Usage(
            f"{option}: {text!r} is not a time", hint=f"write {option} 5m, or {option} 2026-04-16T01:10:06Z"
        )
    return timestamp(when)


def age(at: str | None, now: datetime) -> str:
    """How long ago, in one unit: 5s, 12m, 3h, 4d."""
    try:
        seconds = (now - datetime.fromisoformat(at or "")).total_seconds()
    except (ValueError, TypeError):
        return "-"
    for unit in "wdhm":
        if seconds >= _UNITS[unit]:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{max(0, int(seconds))}s"
