"""A council's profile: who sits in it, how it deliberates, and what bounds it. Pure.

Read from the tables of a TOML file; the log keeps those tables, so a council goes on under the profile
that it began with. An unknown key or a value that makes no sense is a ValueError that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agh.config import PERMISSION_MODES
from agh.core.values import amount, count, seconds, text
from agh_council.toml_table import Table, check_known, flag, inside, one_of, pairs, tables, texts

SCRIPTED, ORCHESTRATOR = "scripted", "orchestrator"
MODES = ("broadcast", "targeted", "round_robin")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


@dataclass(frozen=True)
class Perspective:
    """A seat in the council: an agent with a role."""

    id: str
    agent: str = ""
    command: str = ""
    role: str = ""
    required: bool = False
    speaks_last: bool = False
    model: str = ""


@dataclass(frozen=True)
class Delegating:
    """How the scripted driver shares out the rounds, and what binds either driver."""

    default: str = "broadcast"
    opening_rounds: int = 1
    tension_pairs: tuple[tuple[str, str], ...] = ()
    bias_limit: int = 5
    max_depth: int = 1


class Bounds(NamedTuple):
    """At least `min`, at most `max`; no maximum is None."""

    min: float = 0.0
    max: float | None = None


@dataclass(frozen=True)
class Constraints:
    rounds: Bounds
    budget: Bounds
    time: Bounds


@dataclass(frozen=True)
class Step:
    """A part of a workflow: some rounds with an instruction of their own."""

    name: str
    instruction: str = ""
    rounds: int = 1
    members: tuple[str, ...] = ()
    delegation: str = ""


@dataclass(frozen=True)
class Gate:
    """Where a person decides whether to go on."""

    after_round: int
    prompt: str = "Go on?"


@dataclass(frozen=True)
class Profile:
    name: str
    perspectives: tuple[Perspective, ...]
    orchestrator: Perspective | None = None  # None: the scripted driver
    delegation: Delegating = field(default_factory=Delegating)
    constraints: Constraints = Constraints(Bounds(1), Bounds(), Bounds())
    transcript_replay_depth: int = 50
    on_agent_failure: str = "skip"
    on_unknown: str = "resend"
    expertise: bool = False
    memo: str = "memo.md"
    steps: tuple[Step, ...] = ()
    gates: tuple[Gate, ...] = ()
    permissions: str | None = None

    @property
    def seats(self) -> tuple[Perspective, ...]:
        """Everyone: the perspectives, and the orchestrator if there is one."""
        return (*self.perspectives, *([self.orchestrator] if self.orchestrator else []))

    def seat(self, agent_id: str) -> Perspective | None:
        return next((one for one in self.seats if one.id == agent_id), None)

    def step_of(self, round_number: int) -> tuple[Step | None, int]:
        """The step that a round belongs to, and the step's first round; a round is its own step else."""
        first = 1
        for step in self.steps:
            if first <= round_number < first + step.rounds:
                return step, first
            first += step.rounds
        return None, round_number

    def last_round(self) -> int:
        """The round after which the scripted driver ends."""
        most = self.constraints.rounds.max
        least = max(1, int(self.constraints.rounds.min), self.delegation.opening_rounds)
        planned = sum(step.rounds for step in self.steps) or most or least
        return int(min(planned, most or planned))


def read_profile(given: Mapping[str, Any]) -> Profile:
    """The profile in the tables of a file."""
    table = Table("", given)
    constraints = table.table("constraints")
    seats = table.read("perspectives", tables(_perspective), ())
    if not seats:
        raise ValueError("perspectives: a council needs at least one, as [[perspectives]]")
    ids = [seat.id for seat in seats]
    for one in ids:
        if ids.count(one) > 1 or one == ORCHESTRATOR:
            raise ValueError(f"perspectives: the id {one!r} is taken")
    steps = table.read("steps", tables(_step), ())
    for step in steps:
        check_known(step.members, ids, f"steps: {step.name}")
    depth = constraints.read("transcript_replay_depth", count, 50)
    failure, expertise, output = (table.table(name) for name in ("failure", "expertise", "output"))
    profile = Profile(
        name=table.read("name", text, "council"),
        perspectives=seats,
        orchestrator=table.read("orchestrator", _orchestrator, None),
        delegation=_delegating(table.table("delegation"), ids),
        constraints=Constraints(
            rounds=constraints.read("rounds", _bounds(count), Bounds(1)),
            budget=constraints.read("budget", _bounds(amount), Bounds()),
            time=constraints.read("time", _bounds(seconds), Bounds()),
        ),
        transcript_replay_depth=table.read("transcript_replay_depth", count, depth),
        on_agent_failure=failure.read("on_agent_failure", one_of("skip", "abort_round", "pause"), "skip"),
        on_unknown=failure.read("on_unknown", one_of("resend", "ask"), "resend"),
        expertise=expertise.read("enabled", flag, False),
        memo=output.read("memo", inside, "memo.md"),
        steps=steps,
        gates=tuple(_gate(one, steps) for one in table.read("gates", tables(lambda one: one), ())),
        permissions=table.read("permissions", one_of(*PERMISSION_MODES), None),
    )
    for one in (table, constraints, failure, expertise, output):
        one.finish()
    most = profile.constraints.rounds.max
    for gate in profile.gates:
        if gate.after_round < 1 or (most is not None and gate.after_round > most):
            raise ValueError(f"gates: there is no round {gate.after_round}")
    return profile


def _perspective(table: Table) -> Perspective:
    seat = Perspective(
        id=table.read("id", text, ""),
        agent=table.read("agent", text, ""),
        command=table.read("command", text, ""),
        role=table.read("role", text, ""),
        required=table.read("required", flag, False),
        speaks_last=table.read("speaks_last", flag, False),
        model=table.read("model", text, ""),
    )
    table.finish()
    if not _ID.fullmatch(seat.id):
        raise ValueError(f"{table.name}: the id {seat.id!r} is not letters, digits, dashes")
    if seat.agent and seat.command:
        raise ValueError(f"{seat.id}: give an agent or a command, not both")
    return seat


def _orchestrator(given: Any) -> Perspective | None:
    if isinstance(given, str):
        return None if given == SCRIPTED else Perspective(ORCHESTRATOR, agent=given)
    return _perspective(Table(ORCHESTRATOR, {**Table(ORCHESTRATOR, given).given, "id": ORCHESTRATOR}))


def _delegating(table: Table, ids: list[str]) -> Delegating:
    usual = Delegating()
    made = Delegating(
        default=table.read("default", one_of(*MODES), usual.default),
        opening_rounds=table.read("opening_rounds", count, usual.opening_rounds),
        tension_pairs=table.read("tension_pairs", pairs, ()),
        bias_limit=table.read("bias_limit", count, usual.bias_limit),
        max_depth=table.read("max_depth", count, usual.max_depth),
    )
    table.finish()
    for pair in made.tension_pairs:
        check_known(pair, ids, "delegation.tension_pairs")
    return made


def _step(table: Table) -> Step:
    step = Step(
        name=table.read("name", text, ""),
        instruction=table.read("instruction", text, ""),
        rounds=table.read("rounds", count, 1),
        members=table.read("members", texts, ()),
        delegation=table.read("delegation", one_of(*MODES), ""),
    )
    table.finish()
    if not step.name or not step.rounds:
        raise ValueError(f"{table.name}: a step has a name and at least one round")
    return step


def _gate(table: Table, steps: tuple[Step, ...]) -> Gate:
    after, step_name = table.read("after_round", count, 0), table.read("after_step", text, "")
    prompt = table.read("prompt", text, Gate(1).prompt)
    table.finish()
    if step_name:
        names = [step.name for step in steps]
        check_known((step_name,), names, "gates.after_step")
        after = sum(step.rounds for step in steps[: names.index(step_name) + 1])
    return Gate(after, prompt)


def _bounds(kind: Callable[[Any], float]) -> Callable[[Any], Bounds]:
    def read(given: Any) -> Bounds:
        table = Table("", given)
        made = Bounds(table.read("min", kind, 0), table.read("max", kind, None))
        table.finish()
        if made.max is not None and (made.max <= 0 or made.min > made.max):
            raise ValueError("the maximum must be above zero and not below the minimum")
        return made

    return read
