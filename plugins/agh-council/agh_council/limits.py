"""What bounds a council: time, budget and rounds. Pure.

A maximum of time or budget that is reached pauses the council; the last round ends it. Minimums keep it
from ending. Time is counted from the start or the last resume; budget and rounds over the whole life.
"""

from __future__ import annotations

from typing import NamedTuple

from agh_council.profile import Bounds
from agh_council.state import State

APPROACHING = 0.8


class Used(NamedTuple):
    constraint: str
    used: float
    bounds: Bounds

    @property
    def left(self) -> float | None:
        return None if self.bounds.max is None else round(max(0.0, self.bounds.max - self.used), 9)


def usage(state: State, more_cost: float = 0.0) -> list[Used]:
    """How much of each is used; `more_cost` is of turns that still run."""
    bounds = state.profile.constraints
    return [
        Used("rounds", state.rounds_completed, bounds.rounds),
        Used("budget", state.spent + more_cost, bounds.budget),
        Used("time", state.elapsed, bounds.time),
    ]


def reached(state: State, more_cost: float = 0.0) -> tuple[str, str] | None:
    """The stop reason and detail of a maximum that was reached."""
    _, budget, time = usage(state, more_cost)
    if budget.left == 0:
        return "budget_exceeded", f"budget: {budget.used:g} of {budget.bounds.max:g} is spent"
    if time.left == 0:
        return "timeout", "max_time"
    return None


def approaching(state: State, more_cost: float = 0.0) -> list[Used]:
    """What has come close to its maximum, has not reached it, and was not warned of yet."""
    return [
        one
        for one in usage(state, more_cost)
        if one.left and one.used >= APPROACHING * (one.bounds.max or 0) and one.constraint not in state.warned
    ]


def can_end(state: State) -> bool:
    """Only past every minimum."""
    return not obstacles(state)


def obstacles(state: State) -> list[str]:
    """Why the council may not end yet; none when it may."""
    short = [
        f"{one.constraint}: {one.used:g} of at least {one.bounds.min:g}"
        for one in usage(state)
        if one.used < one.bounds.min
    ]
    silent = [one.id for one in state.profile.perspectives if one.required and not state.position(one.id)]
    return [*short, *(f"{id} has not answered yet" for id in silent)]
