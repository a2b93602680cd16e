"""Times and durations, as users write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agh.core.display.times import timestamp
from agh.errors import Usage


def parse_duration(text: str, option: str) -> float:
    """Parse `90s`, `5m`, `2h`, `3d` or a plain number, and return seconds."""
    from agh.core.settings.values import seconds  # a table needs none of it (0.3 ms)

    try:
        return seconds(text)
    except ValueError as error:
        raise Usage(f"{option}: {error}", hint="write 30s, 5m, 2h or 3d") from None


def parse_time(text: str, option: str) -> str:
    """Parse RFC 3339, or a duration meaning that long ago, and return a timestamp."""
    from agh.core.settings.values import SECONDS_PER_UNIT

    when = None
    try:
        if text[-1:] in SECONDS_PER_UNIT and text[:1].isdigit():
            when = datetime.now(UTC) - timedelta(seconds=parse_duration(text, option))
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


def clock(at: str, now: datetime | None = None) -> str:
    """Format a moment in local time: `15:00` within a day, else with the date."""
    try:
        moment = datetime.fromisoformat(at).astimezone()
    except ValueError:
        return at
    near = abs(moment - (now or datetime.now(UTC))) < timedelta(hours=20)
    return f"{moment:%H:%M}" if near else f"{moment:%Y-%m-%d %H:%M}"


def age(at: str | None, now: datetime) -> str:
    """Format how long ago it was in one unit: 5s, 12m, 3h, 4d."""
    try:
        elapsed = now - datetime.fromisoformat(at or "")
    except (ValueError, TypeError):
        return "-"
    days, seconds = elapsed.days, elapsed.seconds
    if days < 0:
        return "0s"
    if days:
        return f"{days}d" if days < 7 else f"{days // 7}w"
    if seconds >= 3600:
        return f"{seconds // 3600}h"
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m"


def local(at: str | None, now: datetime) -> str:
    """Format a time as local time, and how long ago it was: `2026-04-16 03:10:06 (5m ago)`."""
    try:
        return f"{datetime.fromisoformat(at or '').astimezone():%Y-%m-%d %H:%M:%S} ({age(at, now)} ago)"
    except ValueError:
        return str(at or "-")
