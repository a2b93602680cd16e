"""What a council does next: `next_action(state)`, a pure function of the log.

Whoever was killed, whenever: the next keeper folds the log, asks this function, and goes on. Two drivers
open the rounds: the script of the profile, or an orchestrating agent whose answer is one JSON action;
where that is not to be had the script stands in.
"""

from __future__ import annotations

from collections.abc import Sequence

from agh_council import limits, prompts
from agh_council.actions import (
    Action,
    AskGate,
    CloseRound,
    Delegate,
    Finish,
    OpenRound,
    Pause,
    Send,
    Settle,
    WriteMemo,
)
from agh_council.json_answers import Choice, chosen, requests
from agh_council.profile import ORCHESTRATOR
from agh_council.state import Delegation, Round, State

TRIES = 3


def next_action(state: State) -> Action:
    if state.memo is not None:
        return Finish()
    gate = state.waiting_gate
    if gate is not None:
        return Pause("paused", f"gate: {gate['prompt']}")
    if state.open_round is not None:
        return _within(state, state.open_round)
    due = _due_gate(state)
    if due is not None:
        return due
    scripted = state.profile.orchestrator is None
    over = state.rounds_completed >= state.profile.last_round() if scripted else _used_up(state)
    if over and limits.can_end(state):
        return WriteMemo(prompts.memo(state)) if scripted else _ask_for_memo(state)
    hit = limits.reached(state)
    if hit is not None:
        return Pause(*hit)
    if _used_up(state):
        return Pause("max_turns", f"every round is used up, but {'; '.join(limits.obstacles(state))}")
    return _script(state) if scripted else _consult(state)


def _used_up(state: State) -> bool:
    """Whether there may be no more rounds."""
    most = state.profile.constraints.rounds.max
    return most is not None and state.rounds_completed >= most


def _within(state: State, now: Round) -> Action:
    """In an open round: everyone who is asked answers, then those who speak last, then it closes."""
    asked = state.asked_in(now)
    action = _deliver(asked, state.resumed_at) or _fail(state, now, asked) or _look_into(state, asked)
    if action is not None:
        return action
    reached = {one.target for one in asked}
    for wave in (False, True):
        waiting = [t for t in now.targets if t not in reached and prompts.is_last(state, t) is wave]
        if waiting:
            return Delegate([_ask(state, now, target) for target in waiting])
    return CloseRound(now.number)


def _deliver(asked: Sequence[Delegation], resumed_at: int) -> Action | None:
    """Bring what is open to an end: first what may have got lost, then the rest, all at once."""
    lost = [one for one in asked if one.status == "unknown"]
    hopeless = [one.id for one in lost if one.tries % TRIES == 0 and one.sequence > resumed_at]
    if lost:
        return Settle(hopeless, True) if hopeless else Settle([one.id for one in lost])
    waiting = [one.id for one in asked if one.is_open]
    return Send(waiting) if waiting else None


def _fail(state: State, now: Round, asked: Sequence[Delegation]) -> Action | None:
    """What the profile wants done about members that failed. A failure from before a resume is tried anew."""
    failed = [one for one in asked if one.status == "failed" and one.depth == 0]
    if not failed:
        return None
    if state.profile.on_agent_failure == "abort_round":
        return CloseRound(now.number, "aborted")
    pausing = state.profile.on_agent_failure == "pause" or not any(one.status == "answered" for one in asked)
    grave = [one for one in failed if pausing or _is_required(state, one.target)]
    earlier = [one.id for one in grave if one.sequence < state.resumed_at]
    if earlier:
        return Settle(earlier)
    return Pause("paused", f"{grave[0].target} failed: {grave[0].detail}") if grave else None


def _is_required(state: State, agent_id: str) -> bool:
    seat = state.profile.seat(agent_id)
    return seat is not None and seat.required


def _look_into(state: State, asked: Sequence[Delegation]) -> Action | None:
    """Members may send out members of their own, to a bounded depth, and are told what those found."""
    deepest = state.profile.delegation.max_depth
    sent_out = {one.parent for one in asked if one.kind == "child"}
    told = {one.parent for one in asked if one.kind == "report"}
    able = [one for one in asked if one.status == "answered" and one.kind != "report" and one.depth < deepest]
    wanted = [(one, wish) for one in able if one.id not in sent_out for wish in requests(one.answer)]
    if wanted:
        return Delegate([_child(one, *wish) for one, wish in wanted])
    waiting = [one for one in able if one.id in sent_out and one.id not in told]
    depth = max((one.depth for one in waiting), default=0)  # the others wait for these
    made = [_report(state, one, asked) for one in waiting if one.depth == depth]
    return Delegate(made) if made else None


def _report(state: State, one: Delegation, asked: Sequence[Delegation]) -> Delegation:
    text = prompts.report(state, [child for child in asked if child.parent == one.id])
    return Delegation(f"{one.id}+", one.target, one.round, text, "report", depth=one.depth, parent=one.id)


def _child(one: Delegation, name: str, role: str, text: str) -> Delegation:
    target = f"{one.target}/{name}"
    return Delegation(
        f"{one.id}/{name}", target, one.round, text, "child", depth=one.depth + 1, parent=one.id, role=role
    )


def _ask(state: State, now: Round, target: str) -> Delegation:
    text = now.messages.get(target) or prompts.message(state, now, target)
    again = f".{now.attempt}" if now.attempt > 1 else ""
    return Delegation(
        f"r{now.number}{again}-{target}", target, now.number, text, private=prompts.for_one(now, target)
    )


def _due_gate(state: State) -> AskGate | None:
    number = state.rounds_completed
    last = state.rounds.get(number)
    asked = state.gates.get(number, {"attempt": 0})
    for gate in state.profile.gates:
        if last is not None and gate.after_round == number and asked["attempt"] < last.attempt:
            return AskGate(number, last.attempt, gate.prompt)
    return None


def _open(
    state: State, targets: list[str], messages: dict[str, str] | None = None, fallback: str = ""
) -> OpenRound:
    number = state.rounds_completed + 1
    return OpenRound(number, state.attempts.get(number, 0) + 1, targets, messages or {}, fallback)


def _script(state: State, fallback: str = "") -> OpenRound:
    """The profile's own plan for the next round."""
    number, plan = state.rounds_completed + 1, state.profile.delegation
    step, _ = state.profile.step_of(number)
    everyone = [
        one.id for one in state.profile.perspectives if not (step and step.members) or one.id in step.members
    ]
    mode = step.delegation if step and step.delegation else plan.default
    paired = [id for id in everyone if prompts.partners(state, id)]
    if number <= plan.opening_rounds or (mode == "targeted" and biased(state, paired)):
        mode = "broadcast"
    if mode == "targeted" and paired:
        return _open(state, paired, fallback=fallback)
    if mode == "broadcast":
        return _open(state, everyone, fallback=fallback)
    return _open(state, [everyone[(number - plan.opening_rounds - 1) % len(everyone)]], fallback=fallback)


def biased(state: State, targets: Sequence[str]) -> str | None:
    """Who would have been asked too much more often than the others, were these asked now."""
    counts = {one.id: 0 for one in state.profile.perspectives}
    for now in state.rounds.values():
        for target in now.targets:
            counts[target] = counts.get(target, 0) + 1
    for target in targets:
        counts[target] += 1
    limit = state.profile.delegation.bias_limit
    return next((one for one in targets if limit and counts[one] - min(counts.values()) > limit), None)


def _consult(state: State) -> Action:
    """Ask the orchestrator what to do in the next round, and do it if it may be done."""
    number = state.rounds_completed + 1
    again = f".{state.attempts[number] + 1}" if number in state.attempts else ""
    asked = state.delegations.get(f"c{number}{again}")
    if asked is None:
        text = prompts.consultation(state, number, limits.obstacles(state))
        return Delegate([Delegation(f"c{number}{again}", ORCHESTRATOR, number, text, "consult")])
    action = _deliver([asked], state.resumed_at)
    if action is not None:
        return action
    if asked.status == "failed":
        return _script(state, f"the orchestrator failed: {asked.detail}")
    choice = chosen(asked.answer, [one.id for one in state.profile.perspectives])
    refused = choice if isinstance(choice, str) else _refuse(state, choice)
    if refused:
        return _script(state, refused)
    assert isinstance(choice, Choice)
    if choice.ends:
        return WriteMemo(choice.memo or prompts.memo(state))
    return _open(state, list(choice.messages), choice.messages)


def _refuse(state: State, choice: Choice) -> str:
    if choice.ends:
        return "; ".join(f"it may not end yet: {one}" for one in limits.obstacles(state))
    biased_to = biased(state, list(choice.messages))
    return f"{biased_to} was asked too often already" if biased_to else ""


def _ask_for_memo(state: State) -> Action:
    asked = state.delegations.get("memo")
    if asked is None:
        number = state.rounds_completed
        return Delegate([Delegation("memo", ORCHESTRATOR, number, prompts.ask_for_memo(state), "memo")])
    action = _deliver([asked], state.resumed_at)
    return action or WriteMemo(asked.answer.strip() + "\n" if asked.answer.strip() else prompts.memo(state))
