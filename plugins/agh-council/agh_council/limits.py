"""The limits of a council: time, budget and rounds. Pure.

Reaching the maximum of time or budget pauses the council; the last round ends it. Minimums keep it from
ending. Time is counted from the start or the last resume; budget and rounds over the council's whole life.
"""

from __future__ import annotations

from agh.core.named_tuple import NamedTuple
from agh_council.profile import Bounds
from agh_council.state import State

WARN_FRACTION = 0.8  # of a maximum


class Usage(NamedTuple):
    """How much of a limit the council has used."""

    constraint: str
    used: float
    bounds: Bounds

    @property
    def left(self) -> float | None:
        return None if self.bounds.max is None else round(max(0.0, self.bounds.max - self.used), 9)


def usages(state: State, running_cost: float = 0.0) -> list[Usage]:
    """Return the use of rounds, budget and time; `running_cost` is the cost of turns still running."""
    bounds = state.profile.constraints
    return [
        Usage("rounds", state.rounds_completed, bounds.rounds),
        Usage("budget", state.spent + running_cost, bounds.budget),
        Usage("time", state.elapsed, bounds.time),
    ]


def find_reached(state: State, running_cost: float = 0.0) -> tuple[str, str] | None:
    """Return the stop reason and detail of a maximum that was reached, if any."""
    _, budget, time = usages(state, running_cost)
    if budget.left == 0:
        return "budget_exceeded", f"{budget.used:g} of the budget of {budget.bounds.max:g} is spent"
    if time.left == 0:
        return "timeout", "max_time"
    return None


def find_approaching(state: State, running_cost: float = 0.0) -> list[Usage]:
    """Return the limits that are close to their maximum, have not reached it, and had no warning yet."""
    return [
        usage
        for usage in usages(state, running_cost)
        if usage.left
        and usage.used >= WARN_FRACTION * (usage.bounds.max or 0)
        and usage.constraint not in state.warned
    ]


def can_end(state: State) -> bool:
    """Tell whether every minimum is reached and every required member has answered."""
    return not obstacles_to_ending(state)


def obstacles_to_ending(state: State) -> list[str]:
    """Return the reasons why the council may not end yet."""
    too_low = [
        f"{usage.constraint}: {usage.used:g} so far, at least {usage.bounds.min:g} required"
        for usage in usages(state)
        if usage.used < usage.bounds.min
    ]
    silent = [
        member.id
        for member in state.profile.perspectives
        if member.required and not state.latest_answer(member.id)
    ]
    return [*too_low, *(f"{id} has not answered yet" for id in silent)]
