"""The texts that a council sends to its members, and its memo. Pure: no clock, no randomness.

A prompt has two parts. Above `=== CURRENT REQUEST ===` is what only this member may see: who it is, its
scratch pad, its own past if its agent lost it, and notes from the operator. Below is the request.
"""

from __future__ import annotations

from typing import Any

from agh_council.limits import usages
from agh_council.profile import ORCHESTRATOR
from agh_council.state import Delegation, Round, State

RESUMED = "## Session Context (Resumed)"
QUOTE_LIMIT, TAIL_ENTRY_LIMIT, TAIL_LIMIT = 6_000, 2_000, 24_000

ACTIONS = """\
Answer with one JSON object and nothing else, one of:
{"action": "broadcast", "message": "a question for every member"}
{"action": "delegate", "delegations": [{"target": "MEMBER", "message": "a question for this member"}]}
{"action": "end", "memo": "the council's memo, in Markdown"}"""


def compose_prompt(state: State, delegation: Delegation, scratch_pad: str | None) -> str:
    """Return the whole prompt for a delegation; `scratch_pad` is the path of the member's pad."""
    member = state.members[delegation.target]
    private = [] if member.introduced else [compose_introduction(state, delegation, scratch_pad)]
    if member.needs_tail:
        private.append(compose_tail(state.tail(delegation.target), delegation))
    if delegation.private:
        private.append(delegation.private)
    parts = [
        *private,
        f"=== CURRENT REQUEST ===\n{delegation.message}",
        f"=== INSTRUCTIONS ===\n{_instructions(state, delegation)}",
    ]
    return "\n\n".join(filter(None, parts))


def compose_introduction(state: State, delegation: Delegation, scratch_pad: str | None) -> str:
    """Return the paragraph that introduces a member to its role, its scratch pad and the brief."""
    member = state.profile.member(delegation.target)
    role = delegation.role or (member.role if member else "")
    lines = [f'You are "{delegation.target}" in the council "{state.profile.name}".']
    if delegation.target == ORCHESTRATOR:
        lines.append("You lead it: you ask its members, and you do not answer in their place.")
        lines += [f"- {perspective.id}: {perspective.role}" for perspective in state.profile.perspectives]
    if role:
        lines.append(f"Your role: {role}")
    if scratch_pad is not None:
        lines.append(
            f"Your scratch pad is {scratch_pad}. Read it first; keep in it what you want to remember."
        )
    if state.brief.strip() not in delegation.message:
        lines.append(f"The brief of the council:\n{quote(state.brief)}")
    return "\n".join(lines)


def compose_tail(tail: list[dict[str, Any]], delegation: Delegation) -> str:
    """Return a member's own past, for an agent that lost its memory.

    The delegation being sent now is left out: it is the request of the same prompt.
    """
    entries: list[str] = []
    remaining = TAIL_LIMIT
    for message in reversed(tail):
        if message["type"] == "delegation" and message["delegation"] == delegation.id:
            continue
        speaker = _speaker(message, delegation.target)
        entry = f"[round {message['round']}] {speaker}:\n{quote(message['text'], TAIL_ENTRY_LIMIT)}"
        remaining -= len(entry)
        if remaining < 0:
            break
        entries.append(entry)
    if not entries:
        return ""
    introduction = "This session was paused and has been resumed. This is what you took part in before."
    return "\n".join([RESUMED, introduction, *reversed(entries)])


def _speaker(message: dict[str, Any], agent_id: str) -> str:
    """Return who asked or answered in a message, as seen by the member."""
    other, is_request = message["agent_id"], message["type"] == "delegation"
    if other == agent_id:
        return "You were asked" if is_request else "You answered"
    return f"You asked {other}" if is_request else f"{other} answered"


def _instructions(state: State, delegation: Delegation) -> str:
    if delegation.kind == "consult":
        return ACTIONS
    if delegation.kind == "memo":
        return "Answer with the memo alone, in Markdown."
    text = "Answer in your role, as yourself. The other members do not see the text above the request."
    if delegation.kind in ("ask", "child") and delegation.depth < state.profile.delegation.max_depth:
        text += (
            ' To have something looked into first, answer with one JSON object: {"delegate": '
            '[{"id": "NAME", "role": "…", "message": "…"}]}; you will get the answers and be asked again.'
        )
    return text


def scripted_request(state: State, round_: Round, target: str) -> str:
    """Return what the script asks a member in a round."""
    profile, number = state.profile, round_.number
    step, _ = profile.step_of(number)
    total = f" of {profile.last_round()}" if number <= profile.last_round() else ""
    heading = f"Round {number}{total}" + (f": {step.name}." if step else ".")
    parts = [heading, *notes_for_everyone(round_)]
    is_opening = number <= profile.delegation.opening_rounds
    if is_opening:
        parts.append(state.brief.strip())
    rivals = [] if is_opening else profile.rivals(target)
    for rival in rivals:
        answered = state.latest_answer(rival, before=number)
        if answered is not None:
            parts.append(f"{rival} said in round {answered.round}:\n{quote(answered.answer)}")
    if profile.is_last_speaker(target):
        parts += [
            f"{answered.target} says in this round:\n{quote(answered.answer)}"
            for other in round_.targets
            if not profile.is_last_speaker(other) and (answered := state.answer_in(round_, other)) is not None
        ]
    default = (
        "Give your position." if is_opening else "Answer it." if rivals else "Say what you think now and why."
    )
    parts.append(step.instruction if step and step.instruction else default)
    return "\n\n".join(filter(None, parts))


def notes_for_everyone(round_: Round) -> list[str]:
    """Return the operator's feedback and notes to all members in a round."""
    feedback = [f"The operator rejected the last result: {round_.feedback}"] if round_.feedback else []
    notes = [steer["text"] for steer in round_.steers if not steer["to"]]
    return feedback + [f"Note from the operator: {text}" for text in notes]


def notes_for_member(round_: Round, target: str) -> str:
    """Return the operator's notes to this member only in a round."""
    notes = [steer["text"] for steer in round_.steers if steer["to"] == target]
    return "\n".join(f"Note from the operator, for you alone: {text}" for text in notes)


def report_request(state: State, children: list[Delegation]) -> str:
    """Return the children's answers, as a request to their parent."""
    parts = ["What you wanted looked into:"]
    for child in children:
        answered = state.answer_in(state.rounds[child.round], child.target)
        answer = quote(answered.answer) if answered else f"no answer: {child.detail}"
        parts.append(f"{child.target.rpartition('/')[2]}:\n{answer}")
    return "\n\n".join([*parts, "Give your answer now."])


def consult_request(state: State, number: int, obstacles: list[str]) -> str:
    """Return what the orchestrator is asked before a round; `obstacles` keep the council from ending."""
    used = [
        f"{usage.constraint} {usage.used:g}" + _of_maximum(usage.bounds.max)
        for usage in usages(state)
        if usage.constraint != "time"
    ]
    parts = [f"Choose what happens in round {number}. So far: {', '.join(used)}."]
    parts += _answers_in(state, number - 1)
    parts += [f"Note from the operator: {steer['text']}" for steer in state.steers if not steer["to"]]
    if state.feedback:
        parts.append(f"The operator rejected the last result: {state.feedback}")
    parts.append("You may end it." if not obstacles else f"You may not end it yet: {'; '.join(obstacles)}.")
    return "\n\n".join(parts)


def memo_request(state: State) -> str:
    """Return the request to the orchestrator to write the memo."""
    answers = _answers_in(state, max(state.rounds, default=0))
    return "\n\n".join(["The last round is over. Write the council's memo.", *answers])


def _answers_in(state: State, number: int) -> list[str]:
    """Return each perspective's answer in a round, or that it did not answer."""
    round_ = state.rounds.get(number)
    if round_ is None:
        return []
    return [
        f"{delegation.target} "
        + (f"said:\n{quote(delegation.answer)}" if delegation.status == "answered" else "did not answer.")
        for delegation in state.delegations_in(round_)
        if delegation.depth == 0
        and (delegation.status != "answered" or state.answer_in(round_, delegation.target) is delegation)
    ]


def compose_memo(state: State) -> str:
    """Return the memo of a scripted council: everyone's position, those who speak last first."""
    profile = state.profile
    lines = [f"# Memo: {profile.name}", "## Brief", state.brief.strip(), "## Positions"]
    for member in sorted(profile.perspectives, key=lambda member: not member.speaks_last):
        answered = state.latest_answer(member.id)
        lines.append(f"### {member.id}" + (f" (round {answered.round})" if answered else ""))
        lines.append(answered.answer.strip() if answered else "No answer.")
    lines += ["## Rounds", *(_summarize_round(state, round_) for round_ in state.sorted_rounds)]
    return "\n\n".join(lines) + "\n"


def _summarize_round(state: State, round_: Round) -> str:
    heard = [target for target in round_.targets if state.answer_in(round_, target)]
    silent = [target for target in round_.targets if target not in heard]
    aborted = " (aborted)" if round_.status == "aborted" else ""
    missing = f"; no answer from {', '.join(silent)}" if silent else ""
    return f"- Round {round_.number}{aborted}: {', '.join(heard) or 'nobody'}{missing}"


def quote(text: str, limit: int = QUOTE_LIMIT) -> str:
    """Return the text as a Markdown quotation, so that none of its lines can pass for one of ours."""
    if len(text) > limit:
        text = text[:limit] + f"… [{len(text) - limit} characters are left out]"
    return "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))


def _of_maximum(maximum: float | None) -> str:
    return "" if maximum is None else f" of {maximum:g}"
