"""What a council can do next. Plain data: the driver chooses, the engine does."""

from __future__ import annotations

from typing import Any, NamedTuple

from agh_council.state import Delegation


class OpenRound(NamedTuple):
    number: int
    attempt: int
    targets: list[str]
    messages: dict[str, str]  # empty: the script's
    fallback: str = ""  # why the script stands in for the orchestrator


class Delegate(NamedTuple):
    """Write these delegations down."""

    made: list[Delegation]


class Send(NamedTuple):
    """Send these, or find out what became of them, and wait for the answers."""

    ids: list[str]


class Settle(NamedTuple):
    """Nobody knows what became of these, or they failed before a resume: try again, or give up."""

    ids: list[str]
    gives_up: bool = False


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


Action = OpenRound | Delegate | Send | Settle | CloseRound | AskGate | WriteMemo | Pause | Finish


def describe(action: Any) -> str:
    """An action in a few words, for the log of the keeper."""
    return f"{type(action).__name__}({', '.join(str(value)[:60] for value in action)})"
