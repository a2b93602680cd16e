"""Times as agh stores and prints them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(when: datetime | None = None) -> str:
    """Format a time, or the current one, as RFC 3339 in UTC: milliseconds and a final Z."""
    when = when.astimezone(UTC) if when else datetime.now(UTC)
    return when.isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"
