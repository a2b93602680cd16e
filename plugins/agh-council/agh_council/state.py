"""The state of a council: the fold of its log. Pure; the same rows give the same state.

The council's own events are `system` events with an `action` and a `council` object; an answer is an
`agent_message`. Nothing is remembered anywhere else: what the engine knows is what this reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agh.core.events import Row, event_id
from agh_council.profile import Bounds, Profile, read_profile

Note = tuple[str, str, dict[str, Any]]  # an event of the council: action, title, what it says
OPEN_STATUSES = ("pending", "sent", "unknown")
LOST_MEMORY = ("inject_history", "idle_boot")


@dataclass
class Delegation:
    """One request to one member. Its status is pending, sent, answered, failed or unknown.

    `kind` is ask (part of a round), child (for a member's member), report (its answers, told to the
    member), consult or memo (for the orchestrator). `private` is for the member's eyes alone.
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
    """A member's session, and whether its agent still knows what was said."""

    agent_id: str
    session_id: str
    acp_session_id: str | None = None
    restore: dict[str, Any] | None = None
    parent_agent_id: str | None = None
    depth: int = 0
    introduced: bool = False  # it was told who it is, and has answered since
    owes_tail: bool = False  # its agent lost its memory and was not yet told of it


@dataclass
class Round:
    number: int
    attempt: int
    targets: list[str]
    messages: dict[str, str]
    steers: list[dict[str, Any]]
    feedback: str
    fallback: str
    status: str = "open"
    asked: list[str] = field(default_factory=list)  # delegations, by id


@dataclass
class State:
    session_id: str = ""
    brief: str = ""
    workspace: str = ""
    profile: Profile = field(default_factory=lambda: Profile("", ()))
    members: dict[str, Member] = field(default_factory=dict)
    rounds: dict[int, Round] = field(default_factory=dict)  # the attempts that count
    attempts: dict[int, int] = field(default_factory=dict)
    delegations: dict[str, Delegation] = field(default_factory=dict)
    gates: dict[int, dict[str, Any]] = field(default_factory=dict)  # by the round they come after
    steers: list[dict[str, Any]] = field(default_factory=list)  # not yet part of a round
    feedback: str = ""  # of a gate that was rejected, for the next round
    pads: dict[str, str] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)
    memo: dict[str, Any] | None = None
    spent: float = 0.0
    elapsed: float = 0.0  # what the keeper's clock says; the log does not know it
    turns: dict[int, int] = field(default_factory=dict)  # turns begun, by round
    talk: list[dict[str, Any]] = field(default_factory=list)  # who asked and answered what, in order
    sequence: int = 0
    resumed_at: int = 0

    @property
    def open_round(self) -> Round | None:
        return next((one for one in self.rounds.values() if one.status == "open"), None)

    @property
    def rounds_completed(self) -> int:
        return sum(one.status != "open" for one in self.rounds.values())

    @property
    def waiting_gate(self) -> dict[str, Any] | None:
        return next((one for one in self.gates.values() if one["status"] == "waiting"), None)

    def asked_in(self, one: Round) -> list[Delegation]:
        return [self.delegations[id] for id in one.asked]

    def position(self, agent_id: str, before: int | None = None) -> Delegation | None:
        """The member's last answer, in the rounds that count (and come before a round)."""
        for number in sorted(self.rounds, reverse=True):
            if before is None or number < before:
                found = self.said_in(self.rounds[number], agent_id)
                if found is not None:
                    return found
        return None

    def said_in(self, one: Round, agent_id: str) -> Delegation | None:
        """The member's last answer in a round: a report comes after the answer that it completes."""
        answers = [ask for ask in self.asked_in(one) if ask.target == agent_id and ask.status == "answered"]
        return answers[-1] if answers else None

    def tail(self, agent_id: str) -> list[dict[str, Any]]:
        """The end of what a member took part in: by it, by its children, or asked of it."""
        mine = [one for one in self.talk if agent_id in (one["agent_id"], one["parent_agent_id"])]
        depth = self.profile.transcript_replay_depth
        return mine[-depth:] if depth else []


def fold(rows: Iterable[Row], session_id: str = "") -> State:
    state = State(session_id=session_id)
    for row in rows:
        apply(state, row)
    return state


def apply(state: State, row: Row) -> None:
    """Take in the next event."""
    state.sequence = row.sequence
    if row.type == "session_resumed":
        state.resumed_at = row.sequence
        state.warned.discard("time")
    content = row.parsed()
    given = content.get("council")
    if not isinstance(given, dict):
        return
    state.spent = round(state.spent + (given.get("cost") or 0.0), 9)
    if row.type == "agent_message":
        _answered(state, given["delegation"], str(content.get("text") or ""), row)
    elif row.type == "user_message":
        state.turns[given["round"]] = state.turns.get(given["round"], 0) + 1
    elif row.type == "system":
        handler = _HANDLERS.get(str(content.get("action")))
        if handler is not None:
            handler(state, given, row)


def _opened(state: State, given: dict[str, Any], row: Row) -> None:
    state.profile = read_profile(given["profile"])
    state.brief, state.workspace = given["brief"], given["workspace"]


def _limited(state: State, given: dict[str, Any], row: Row) -> None:
    """New maximums, as the council was resumed with them."""
    bounds = {
        name: Bounds(getattr(state.profile.constraints, name).min, value)
        for name, value in given["maximums"].items()
    }
    state.profile = replace(state.profile, constraints=replace(state.profile.constraints, **bounds))
    state.warned -= set(bounds)


def _seated(state: State, given: dict[str, Any], row: Row) -> None:
    known = state.members.get(given["agent_id"])
    fresh = (given.get("restore") or {}).get("strategy") in LOST_MEMORY
    state.members[given["agent_id"]] = Member(
        **{key: given[key] for key in ("agent_id", "session_id", "acp_session_id", "restore")},
        parent_agent_id=given.get("parent_agent_id"),
        depth=given.get("depth") or 0,
        introduced=known is not None and known.introduced and not fresh,
        owes_tail=fresh or (known is not None and known.owes_tail),
    )


def _rounds(state: State, given: dict[str, Any], row: Row) -> None:
    number = given["number"]
    if given["status"] != "open":
        state.rounds[number].status = given["status"]
        return
    keys = ("number", "attempt", "targets", "messages", "steers", "feedback", "fallback")
    state.rounds[number] = Round(**{key: given[key] for key in keys})
    state.attempts[number] = given["attempt"]
    taken = {one["id"] for one in given["steers"]}
    state.steers = [one for one in state.steers if one["id"] not in taken]
    state.feedback = ""


def _delegated(state: State, given: dict[str, Any], row: Row) -> None:
    one = state.delegations.get(given["id"])
    if one is None:
        keys = ("id", "target", "round", "message", "kind", "private", "depth", "parent", "role")
        one = Delegation(**{key: given[key] for key in keys})
        state.delegations[one.id] = one
        if one.round in state.rounds and one.kind in ("ask", "child", "report"):
            state.rounds[one.round].asked.append(one.id)
        _talk(state, one, "delegation", "\n\n".join(filter(None, [one.private, one.message])), row)
    one.status, one.sequence = given["status"], row.sequence
    one.tries, one.detail = given.get("tries") or one.tries, given.get("detail") or ""
    one.message = given.get("message") or one.message


def _answered(state: State, id: str, text: str, row: Row) -> None:
    one = state.delegations[id]
    one.status, one.answer, one.detail, one.sequence = "answered", text, "", row.sequence
    member = state.members.get(one.target)
    if member is not None:
        member.introduced, member.owes_tail = True, False
    _talk(state, one, "answer", text, row)


def _talk(state: State, one: Delegation, type: str, text: str, row: Row) -> None:
    state.talk.append(
        {
            "id": event_id(row.sequence),
            "type": type,
            "delegation": one.id,
            "round": one.round,
            "agent_id": one.target,
            "parent_agent_id": one.target.rpartition("/")[0] or None,
            "text": text,
            "timestamp": row.timestamp,
        }
    )


def _gated(state: State, given: dict[str, Any], row: Row) -> None:
    number = given["round"]
    state.gates[number] = given
    if given["status"] == "rejected":
        _, first = state.profile.step_of(number)
        for rejected in [one for one in state.rounds if one >= first]:
            del state.rounds[rejected]
        state.feedback = given.get("feedback") or ""


def _steered(state: State, given: dict[str, Any], row: Row) -> None:
    state.steers.append(given)


def _warned(state: State, given: dict[str, Any], row: Row) -> None:
    state.warned.add(given["constraint"])


def _noted(state: State, given: dict[str, Any], row: Row) -> None:
    state.pads[given["agent_id"]] = given["text"]


def _concluded(state: State, given: dict[str, Any], row: Row) -> None:
    state.memo = given


_HANDLERS = {
    "opened": _opened,
    "limits": _limited,
    "member": _seated,
    "round": _rounds,
    "delegation": _delegated,
    "gate": _gated,
    "steer": _steered,
    "constraint": _warned,
    "expertise": _noted,
    "memo": _concluded,
}
