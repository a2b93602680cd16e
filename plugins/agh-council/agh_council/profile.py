"""A council's profile: its members, how they deliberate, and its limits. Pure.

The profile is read from the tables of a TOML file. The log keeps those tables, so a council continues with
the profile it started with. An unknown key or an invalid value raises a ValueError that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agh.config import PERMISSION_MODES
from agh.core.named_tuple import NamedTuple
from agh.core.settings.values import amount, count, seconds, text
from agh_council.toml_table import (
    Table,
    boolean,
    check_names,
    list_of_tables,
    list_of_texts,
    one_of,
    pairs,
    path_in_workspace,
)

SCRIPTED, ORCHESTRATOR = "scripted", "orchestrator"
MODES = ("broadcast", "targeted", "round_robin")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


@dataclass(frozen=True)
class Perspective:
    """A member as the profile describes it: an agent with a role."""

    id: str
    agent: str = ""
    command: str = ""
    role: str = ""
    required: bool = False
    speaks_last: bool = False
    model: str = ""


@dataclass(frozen=True)
class DelegationRules:
    """How the script distributes the rounds, and the limits on whom the script or an orchestrator may ask."""

    default: str = "broadcast"
    opening_rounds: int = 1
    tension_pairs: tuple[tuple[str, str], ...] = ()
    bias_limit: int = 5
    max_depth: int = 1


class Bounds(NamedTuple):
    """A minimum and a maximum; a maximum of None means no limit."""

    min: float = 0.0
    max: float | None = None


@dataclass(frozen=True)
class Constraints:
    rounds: Bounds
    budget: Bounds
    time: Bounds


@dataclass(frozen=True)
class Step:
    """A part of a workflow: some rounds with their own instruction."""

    name: str
    instruction: str = ""
    rounds: int = 1
    members: tuple[str, ...] = ()
    delegation: str = ""


@dataclass(frozen=True)
class Gate:
    """A round after which the operator decides whether to continue."""

    after_round: int
    prompt: str = "Go on?"


@dataclass(frozen=True)
class Profile:
    name: str
    perspectives: tuple[Perspective, ...]
    orchestrator: Perspective | None = None  # None: the script opens the rounds
    delegation: DelegationRules = field(default_factory=DelegationRules)
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
    def members(self) -> tuple[Perspective, ...]:
        """Return the perspectives, and the orchestrator if there is one."""
        return (*self.perspectives, *([self.orchestrator] if self.orchestrator else []))

    def member(self, agent_id: str) -> Perspective | None:
        return next((member for member in self.members if member.id == agent_id), None)

    def is_required(self, agent_id: str) -> bool:
        member = self.member(agent_id)
        return member is not None and member.required

    def is_last_speaker(self, agent_id: str) -> bool:
        member = self.member(agent_id)
        return member is not None and member.speaks_last

    def rivals(self, agent_id: str) -> list[str]:
        """Return the other half of each tension pair that the member is in."""
        pairs = self.delegation.tension_pairs
        return [right if left == agent_id else left for left, right in pairs if agent_id in (left, right)]

    def step_of(self, round_number: int) -> tuple[Step | None, int]:
        """Return the step of a round and that step's first round; without steps, each round is its own."""
        first = 1
        for step in self.steps:
            if first <= round_number < first + step.rounds:
                return step, first
            first += step.rounds
        return None, round_number

    def last_round(self) -> int:
        """Return the round after which a scripted council ends."""
        maximum = self.constraints.rounds.max
        minimum = max(1, int(self.constraints.rounds.min), self.delegation.opening_rounds)
        planned = sum(step.rounds for step in self.steps) or maximum or minimum
        return int(min(planned, maximum or planned))


def read_profile(tables: Mapping[str, Any]) -> Profile:
    """Return the profile that these tables describe, or raise a ValueError that names the bad key."""
    root = Table("", tables)
    constraints = root.table("constraints")
    perspectives = root.read("perspectives", list_of_tables(_read_perspective), ())
    if not perspectives:
        raise ValueError("a council needs at least one member: add a [[perspectives]] table")
    ids = [perspective.id for perspective in perspectives]
    for id in ids:
        if id == ORCHESTRATOR:
            raise ValueError(f"perspectives: the id {id!r} is reserved")
        if ids.count(id) > 1:
            raise ValueError(f"perspectives: the id {id!r} is used twice")
    steps = root.read("steps", list_of_tables(_read_step), ())
    for step in steps:
        check_names(step.members, ids, f"steps: {step.name}")
    depth = constraints.read("transcript_replay_depth", count, 50)
    failure, expertise, output = (root.table(name) for name in ("failure", "expertise", "output"))
    profile = Profile(
        name=root.read("name", text, "council"),
        perspectives=perspectives,
        orchestrator=root.read("orchestrator", _read_orchestrator, None),
        delegation=_read_delegation(root.table("delegation"), ids),
        constraints=Constraints(
            rounds=constraints.read("rounds", _bounds(count), Bounds(1)),
            budget=constraints.read("budget", _bounds(amount), Bounds()),
            time=constraints.read("time", _bounds(seconds), Bounds()),
        ),
        transcript_replay_depth=root.read("transcript_replay_depth", count, depth),
        on_agent_failure=failure.read("on_agent_failure", one_of("skip", "abort_round", "pause"), "skip"),
        on_unknown=failure.read("on_unknown", one_of("resend", "ask"), "resend"),
        expertise=expertise.read("enabled", boolean, False),
        memo=output.read("memo", path_in_workspace, "memo.md"),
        steps=steps,
        gates=tuple(
            _read_gate(table, steps) for table in root.read("gates", list_of_tables(lambda table: table), ())
        ),
        permissions=root.read("permissions", one_of(*PERMISSION_MODES), None),
    )
    for table in (root, constraints, failure, expertise, output):
        table.check_all_read()
    maximum = profile.constraints.rounds.max
    for gate in profile.gates:
        if gate.after_round < 1 or (maximum is not None and gate.after_round > maximum):
            raise ValueError(f"gates: there is no round {gate.after_round} to wait after")
    return profile


def _read_perspective(table: Table) -> Perspective:
    perspective = Perspective(
        id=table.read("id", text, ""),
        agent=table.read("agent", text, ""),
        command=table.read("command", text, ""),
        role=table.read("role", text, ""),
        required=table.read("required", boolean, False),
        speaks_last=table.read("speaks_last", boolean, False),
        model=table.read("model", text, ""),
    )
    table.check_all_read()
    if not _ID.fullmatch(perspective.id):
        raise ValueError(f"{table.name}: {perspective.id!r} is not an id of letters, digits, - and _")
    if perspective.agent and perspective.command:
        raise ValueError(f"{perspective.id}: give an agent or a command, not both")
    return perspective


def _read_orchestrator(value: Any) -> Perspective | None:
    if isinstance(value, str):
        return None if value == SCRIPTED else Perspective(ORCHESTRATOR, agent=value)
    values = {**Table(ORCHESTRATOR, value).values, "id": ORCHESTRATOR}
    return _read_perspective(Table(ORCHESTRATOR, values))


def _read_delegation(table: Table, ids: list[str]) -> DelegationRules:
    defaults = DelegationRules()
    rules = DelegationRules(
        default=table.read("default", one_of(*MODES), defaults.default),
        opening_rounds=table.read("opening_rounds", count, defaults.opening_rounds),
        tension_pairs=table.read("tension_pairs", pairs, ()),
        bias_limit=table.read("bias_limit", count, defaults.bias_limit),
        max_depth=table.read("max_depth", count, defaults.max_depth),
    )
    table.check_all_read()
    for pair in rules.tension_pairs:
        check_names(pair, ids, "delegation.tension_pairs")
    return rules


def _read_step(table: Table) -> Step:
    step = Step(
        name=table.read("name", text, ""),
        instruction=table.read("instruction", text, ""),
        rounds=table.read("rounds", count, 1),
        members=table.read("members", list_of_texts, ()),
        delegation=table.read("delegation", one_of(*MODES), ""),
    )
    table.check_all_read()
    if not step.name or not step.rounds:
        raise ValueError(f"{table.name}: a step needs a name and at least one round")
    return step


def _read_gate(table: Table, steps: tuple[Step, ...]) -> Gate:
    after_round, step_name = table.read("after_round", count, 0), table.read("after_step", text, "")
    prompt = table.read("prompt", text, Gate(1).prompt)
    table.check_all_read()
    if not step_name and not after_round:
        raise ValueError(f"gates: {table.name}: a gate needs after_round or after_step")
    if step_name:
        names = [step.name for step in steps]
        check_names((step_name,), names, "gates.after_step")
        after_round = sum(step.rounds for step in steps[: names.index(step_name) + 1])
    return Gate(after_round, prompt)


def _bounds(parse: Callable[[Any], float]) -> Callable[[Any], Bounds]:
    """Return a parser of a `{ min, max }` table whose values `parse` reads."""

    def read_bounds(value: Any) -> Bounds:
        if not isinstance(value, Mapping):
            raise ValueError("must be a table such as { min = 1, max = 3 }")
        table = Table("", value)
        bounds = Bounds(table.read("min", parse, 0), table.read("max", parse, None))
        table.check_all_read()
        if bounds.max is not None and (bounds.max <= 0 or bounds.min > bounds.max):
            raise ValueError("max must be above 0 and not below min")
        return bounds

    return read_bounds
