"""Deciding what a council does next: `next_action(state)`, a pure function of the log.

Whenever a keeper is killed, the next one folds the log, calls this function, and continues. Rounds are
opened by the profile's script, or by an orchestrating agent that answers with one JSON action; when that
answer cannot be used, the script takes the round.
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
    GiveUp,
    OpenRound,
    Pause,
    Retry,
    Send,
    WriteMemo,
)
from agh_council.json_answers import ChildRequest, Choice, parse_child_requests, parse_choice
from agh_council.profile import ORCHESTRATOR
from agh_council.state import Delegation, Round, State

MAX_TRIES = 3


def next_action(state: State) -> Action:
    """Return what the council does next."""
    if state.memo is not None:
        return Finish()
    gate = state.waiting_gate
    if gate is not None:
        return Pause("paused", f"gate: {gate['prompt']}")
    if state.open_round is not None:
        return _continue_round(state, state.open_round)
    due_gate = _find_due_gate(state)
    if due_gate is not None:
        return due_gate
    is_scripted = state.profile.orchestrator is None
    is_over = (
        state.rounds_completed >= state.profile.last_round() if is_scripted else _is_out_of_rounds(state)
    )
    if is_over and limits.can_end(state):
        return WriteMemo(prompts.compose_memo(state)) if is_scripted else _request_memo(state)
    reached = limits.find_reached(state)
    if reached is not None:
        return Pause(*reached)
    if _is_out_of_rounds(state):
        obstacles = limits.obstacles_to_ending(state)
        return Pause("max_turns", f"all rounds are used up, but {'; '.join(obstacles)}")
    return _plan_scripted_round(state) if is_scripted else _consult_orchestrator(state)


def _is_out_of_rounds(state: State) -> bool:
    """Tell whether the maximum of rounds is reached."""
    maximum = state.profile.constraints.rounds.max
    return maximum is not None and state.rounds_completed >= maximum


def _continue_round(state: State, round_: Round) -> Action:
    """Ask the targets, then those who speak last, and close the round when all have answered."""
    delegations = state.delegations_in(round_)
    action = (
        _deliver(delegations, state.resumed_sequence)
        or _handle_failures(state, round_, delegations)
        or _handle_children(state, delegations)
    )
    if action is not None:
        return action
    asked_members = {delegation.target for delegation in delegations}
    for is_last_wave in (False, True):
        targets = [
            target
            for target in round_.targets
            if target not in asked_members and state.profile.is_last_speaker(target) is is_last_wave
        ]
        if targets:
            return Delegate([_delegation_to(state, round_, target) for target in targets])
    return CloseRound(round_.number)


def _deliver(delegations: Sequence[Delegation], resumed_sequence: int) -> Action | None:
    """Finish the open delegations: first those with an unknown outcome, then the rest, all at once."""
    unknown = [delegation for delegation in delegations if delegation.status == "unknown"]
    hopeless = [
        delegation.id
        for delegation in unknown
        if delegation.tries % MAX_TRIES == 0 and delegation.sequence > resumed_sequence
    ]
    if hopeless:
        return GiveUp(hopeless)
    if unknown:
        return Retry([delegation.id for delegation in unknown])
    open_ids = [delegation.id for delegation in delegations if delegation.is_open]
    return Send(open_ids) if open_ids else None


def _handle_failures(state: State, round_: Round, delegations: Sequence[Delegation]) -> Action | None:
    """Apply the profile's failure policy; what failed before a resume is tried again instead."""
    failed = [
        delegation for delegation in delegations if delegation.status == "failed" and delegation.depth == 0
    ]
    if not failed:
        return None
    if state.profile.on_agent_failure == "abort_round":
        return CloseRound(round_.number, "aborted")
    has_answer = any(delegation.status == "answered" for delegation in delegations)
    pauses = state.profile.on_agent_failure == "pause" or not has_answer
    blocking = [delegation for delegation in failed if pauses or state.profile.is_required(delegation.target)]
    before_resume = [delegation.id for delegation in blocking if delegation.sequence < state.resumed_sequence]
    if before_resume:
        return Retry(before_resume)
    return Pause("paused", f"{blocking[0].target} failed: {blocking[0].detail}") if blocking else None


def _handle_children(state: State, delegations: Sequence[Delegation]) -> Action | None:
    """Delegate to the children that members ask for, and report their answers to the parents.

    Children may have children themselves, down to the profile's maximum depth.
    """
    max_depth = state.profile.delegation.max_depth
    parents = {delegation.parent for delegation in delegations if delegation.kind == "child"}
    informed = {delegation.parent for delegation in delegations if delegation.kind == "report"}
    eligible = [
        delegation
        for delegation in delegations
        if delegation.status == "answered" and delegation.kind != "report" and delegation.depth < max_depth
    ]
    children = [
        _delegation_to_child(delegation, request)
        for delegation in eligible
        if delegation.id not in parents
        for request in parse_child_requests(delegation.answer)
    ]
    if children:
        return Delegate(children)
    uninformed = [
        delegation for delegation in eligible if delegation.id in parents and delegation.id not in informed
    ]
    deepest = max((delegation.depth for delegation in uninformed), default=0)  # the others need their answers
    reports = [
        _report_to_parent(state, delegation, delegations)
        for delegation in uninformed
        if delegation.depth == deepest
    ]
    return Delegate(reports) if reports else None


def _report_to_parent(state: State, parent: Delegation, delegations: Sequence[Delegation]) -> Delegation:
    children = [delegation for delegation in delegations if delegation.parent == parent.id]
    return Delegation(
        f"{parent.id}+",
        parent.target,
        parent.round,
        prompts.report_request(state, children),
        "report",
        depth=parent.depth,
        parent=parent.id,
    )


def _delegation_to_child(parent: Delegation, request: ChildRequest) -> Delegation:
    return Delegation(
        f"{parent.id}/{request.name}",
        f"{parent.target}/{request.name}",
        parent.round,
        request.message,
        "child",
        depth=parent.depth + 1,
        parent=parent.id,
        role=request.role,
    )


def _delegation_to(state: State, round_: Round, target: str) -> Delegation:
    attempt = f".{round_.attempt}" if round_.attempt > 1 else ""
    return Delegation(
        f"r{round_.number}{attempt}-{target}",
        target,
        round_.number,
        round_.messages.get(target) or prompts.scripted_request(state, round_, target),
        private=prompts.notes_for_member(round_, target),
    )


def _find_due_gate(state: State) -> AskGate | None:
    """Return the gate after the last round, unless it was asked for this attempt already."""
    number = state.rounds_completed
    last_round = state.rounds.get(number)
    last_gate = state.gates.get(number, {"attempt": 0})
    for gate in state.profile.gates:
        if (
            last_round is not None
            and gate.after_round == number
            and last_gate["attempt"] < last_round.attempt
        ):
            return AskGate(number, last_round.attempt, gate.prompt)
    return None


def _open_next_round(
    state: State, targets: list[str], messages: dict[str, str] | None = None, fallback: str = ""
) -> OpenRound:
    number = state.rounds_completed + 1
    return OpenRound(number, state.attempts.get(number, 0) + 1, targets, messages or {}, fallback)


def _plan_scripted_round(state: State, fallback: str = "") -> OpenRound:
    """Open the next round as the profile plans it."""
    number, rules = state.rounds_completed + 1, state.profile.delegation
    step, _ = state.profile.step_of(number)
    everyone = [
        member.id
        for member in state.profile.perspectives
        if not (step and step.members) or member.id in step.members
    ]
    mode = step.delegation if step and step.delegation else rules.default
    paired = [id for id in everyone if state.profile.rivals(id)]
    if number <= rules.opening_rounds or (mode == "targeted" and find_overasked(state, paired)):
        mode = "broadcast"
    if mode == "targeted" and paired:
        return _open_next_round(state, paired, fallback=fallback)
    if mode == "broadcast":
        return _open_next_round(state, everyone, fallback=fallback)
    turn = (number - rules.opening_rounds - 1) % len(everyone)
    return _open_next_round(state, [everyone[turn]], fallback=fallback)


def find_overasked(state: State, targets: Sequence[str]) -> str | None:
    """Return the first member that would exceed the bias limit if all these targets were asked now."""
    counts = {member.id: 0 for member in state.profile.perspectives}
    for round_ in state.rounds.values():
        for target in round_.targets:
            counts[target] = counts.get(target, 0) + 1
    for target in targets:
        counts[target] += 1
    limit = state.profile.delegation.bias_limit
    fewest = min(counts.values())
    return next((target for target in targets if limit and counts[target] - fewest > limit), None)


def _consult_orchestrator(state: State) -> Action:
    """Ask the orchestrator what to do in the next round, and do it if it is allowed."""
    number = state.rounds_completed + 1
    attempt = f".{state.attempts[number] + 1}" if number in state.attempts else ""
    consultation = state.delegations.get(f"c{number}{attempt}")
    if consultation is None:
        text = prompts.consult_request(state, number, limits.obstacles_to_ending(state))
        return Delegate([Delegation(f"c{number}{attempt}", ORCHESTRATOR, number, text, "consult")])
    action = _deliver([consultation], state.resumed_sequence)
    if action is not None:
        return action
    if consultation.status == "failed":
        return _plan_scripted_round(state, f"the orchestrator failed: {consultation.detail}")
    choice = parse_choice(consultation.answer, [member.id for member in state.profile.perspectives])
    objection = choice if isinstance(choice, str) else _object_to(state, choice)
    if objection:
        return _plan_scripted_round(state, objection)
    assert isinstance(choice, Choice)
    if choice.ends:
        return WriteMemo(choice.memo or prompts.compose_memo(state))
    return _open_next_round(state, list(choice.messages), choice.messages)


def _object_to(state: State, choice: Choice) -> str:
    """Return why the orchestrator's choice is not allowed; empty if it is."""
    if choice.ends:
        obstacles = limits.obstacles_to_ending(state)
        return f"the orchestrator ended the council too early: {'; '.join(obstacles)}" if obstacles else ""
    overasked = find_overasked(state, list(choice.messages))
    return f"{overasked} would be asked more often than bias_limit allows" if overasked else ""


def _request_memo(state: State) -> Action:
    """Ask the orchestrator for the memo; compose one if its answer is empty."""
    request = state.delegations.get("memo")
    if request is None:
        number = state.rounds_completed
        return Delegate([Delegation("memo", ORCHESTRATOR, number, prompts.memo_request(state), "memo")])
    action = _deliver([request], state.resumed_sequence)
    if action is not None:
        return action
    answer = request.answer.strip()
    return WriteMemo(answer + "\n" if answer else prompts.compose_memo(state))
