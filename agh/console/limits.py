"""The limits of a session, as users write them."""

from __future__ import annotations

from agh.console.when import parse_duration
from agh.core.settings.values import amount
from agh.errors import Usage


def parse_limits(
    max_cost: float | None, max_turns: int | None, max_time: str | None, max_bytes: int | None = None
) -> dict[str, float]:
    """Return the limits that are set; raise Usage if one is invalid."""
    time = parse_duration(max_time, "--max-time") if max_time else None
    try:
        max_cost = None if max_cost is None else amount(max_cost)
    except ValueError as error:
        raise Usage(f"--max-cost: {error}", hint="give 0 or more") from None
    options = {"max_cost": max_cost, "max_turns": max_turns, "max_time": time, "max_bytes": max_bytes}
    return {name: value for name, value in options.items() if value is not None}
