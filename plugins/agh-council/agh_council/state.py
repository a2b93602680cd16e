"""The state of a council, as its log describes it. Pure data; `fold.py` builds it from the log.

Nothing is remembered anywhere else: all the engine knows is in here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agh.core.named_tuple import NamedTuple
from agh_council.profile import Profile

OPEN_STATUSES = ("pending", "sent", "unknown")


class CouncilEvent(NamedTuple):
    """A `system` event of the council: its `action`, its title for people, and its `council` object."""

    action: str
    title: str
    payload: dict[str, Any]


@dataclass
class Delegation:
    """A request to one member. Its status is pending, sent, answered, failed or unknown.

    `kind` is ask (part of a round), child (to a member's own member), report (the children's answers, for
    their parent), consult or memo (to the orchestrator). Only the target ever sees `private`.
    The fields are also the keys of the delegation's first event.
    """

    id: str
    target: str
    round: int
    message: str
    kind: str = "ask"
    private: str = ""
    status: str = "pending"
    tries: int = 1
    depth: int = 0
    parent: str = ""
    role: str = ""
    answer: str = ""
    detail: str = ""
    sequence: int = 0

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATUSES


@dataclass
class Member:
    """A member's session, and whether its agent remembers the council."""

    agent_id: str
    session_id: str
    acp_session_id: str | None = None
    restore: dict[str, Any] | None = None
    parent_agent_id: str | None = None
    depth: int = 0
    introduced: bool = False  # it has answered a prompt that introduced it to the council
    needs_tail: bool = False  # its agent lost its memory and has not been sent its tail yet


@dataclass
class Round:
    """A round of questions and answers. The fields are also the keys of the event that opens it."""

    number: int
    attempt: int
    targets: list[str]
    messages: dict[str, str]
    steers: list[dict[str, Any]]
    feedback: str
    fallback: str
    status: str = "open"
    asked: list[str] = field(default_factory=list)  # the ids of its delegations


@dataclass
class State:
    session_id: str = ""
    profile: Profile = field(default_factory=lambda: Profile("", ()))
    brief: str = ""
    workspace: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    rounds: dict[int, Round] = field(default_factory=dict)  # by number, without rejected attempts
    attempts: dict[int, int] = field(default_factory=dict)
    delegations: dict[str, Delegation] = field(default_factory=dict)
    gates: dict[int, dict[str, Any]] = field(default_factory=dict)  # by the round they come after
    gate_sequence: int = 0  # of the last event about a gate
    steers: list[dict[str, Any]] = field(default_factory=list)  # not yet part of a round
    feedback: str = ""  # from a rejected gate, for the next round
    scratch_pads: dict[str, str] = field(default_factory=dict)  # the texts, by member
    warned: set[str] = field(default_factory=set)  # the constraints that came close to their maximum
    memo: dict[str, Any] | None = None
    spent: float = 0.0
    elapsed: float = 0.0  # set from the keeper's clock, not from the log
    turn_counts: dict[int, int] = field(default_factory=dict)  # turns started, by round
    messages: list[dict[str, Any]] = field(default_factory=list)  # requests and answers, in order
    sequence: int = 0
    resumed_sequence: int = 0  # of the last session_resumed event

    @property
    def open_round(self) -> Round | None:
        return next((round_ for round_ in self.rounds.values() if round_.status == "open"), None)

    @property
    def rounds_completed(self) -> int:
        return sum(round_.status != "open" for round_ in self.rounds.values())

    @property
    def sorted_rounds(self) -> list[Round]:
        return [round_ for _, round_ in sorted(self.rounds.items())]

    @property
    def waiting_gate(self) -> dict[str, Any] | None:
        return next((gate for gate in self.gates.values() if gate["status"] == "waiting"), None)

    def delegations_in(self, round_: Round) -> list[Delegation]:
        return [self.delegations[id] for id in round_.asked]

    def latest_answer(self, agent_id: str, before: int | None = None) -> Delegation | None:
        """Return the member's last answered delegation, optionally from before a round."""
        for number in sorted(self.rounds, reverse=True):
            if before is None or number < before:
                answered = self.answer_in(self.rounds[number], agent_id)
                if answered is not None:
                    return answered
        return None

    def answer_in(self, round_: Round, agent_id: str) -> Delegation | None:
        """Return the member's last answered delegation in a round.

        An answer to a report replaces the answer that asked for children: it comes later.
        """
        answered = [
            delegation
            for delegation in self.delegations_in(round_)
            if delegation.target == agent_id and delegation.status == "answered"
        ]
        return answered[-1] if answered else None

    def tail(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the last messages that the member or its children were asked or answered."""
        own = [message for message in self.messages if agent_id in _participants(message)]
        depth = self.profile.transcript_replay_depth
        return own[-depth:] if depth else []


def _participants(message: dict[str, Any]) -> tuple[str, str | None]:
    return message["agent_id"], message["parent_agent_id"]
