"""What a council can do next, as plain data: the planner chooses an action, the engine carries it out."""

from __future__ import annotations

from typing import Any

from agh.core.named_tuple import NamedTuple
from agh_council.state import Delegation


class OpenRound(NamedTuple):
    number: int
    attempt: int
    targets: list[str]
    messages: dict[str, str]  # by member; a member without one gets the script's message
    fallback: str = ""  # why the script replaces the orchestrator in this round


class Delegate(NamedTuple):
    """Record these new delegations."""

    delegations: list[Delegation]


class Send(NamedTuple):
    """Send these delegations, or look up the turns of those already sent, and wait for the answers."""

    ids: list[str]


class Retry(NamedTuple):
    """Try these delegations again: their outcome is unknown, or they failed before a resume."""

    ids: list[str]


class GiveUp(NamedTuple):
    """Mark these delegations as failed: their outcome was unknown too often."""

    ids: list[str]


class CloseRound(NamedTuple):
    number: int
    status: str = "closed"


class AskGate(NamedTuple):
    number: int
    attempt: int
    prompt: str


class WriteMemo(NamedTuple):
    text: str


class Pause(NamedTuple):
    reason: str
    detail: str


class Finish(NamedTuple):
    pass


Action = OpenRound | Delegate | Send | Retry | GiveUp | CloseRound | AskGate | WriteMemo | Pause | Finish


def describe(action: Any) -> str:
    """Return a short description of the action for the keeper's log."""
    return f"{type(action).__name__}({', '.join(str(value)[:60] for value in action)})"
