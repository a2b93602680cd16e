"""What members are told, and the memo. Pure: the same state gives the same words, without clock or chance.

A prompt has two parts. Above `=== CURRENT REQUEST ===` stands what is for this member alone: who it is, its
scratch pad, its own past if its agent lost it, notes from the operator. Below stands the request.
"""

from __future__ import annotations

from typing import Any

from agh_council.limits import usage
from agh_council.profile import ORCHESTRATOR
from agh_council.state import Delegation, Round, State

RESUMED = "## Session Context (Resumed)"
QUOTE_LIMIT, TAIL_ENTRY_LIMIT, TAIL_LIMIT = 6_000, 2_000, 24_000

ACTIONS = """\
Answer with one JSON object and nothing else, one of:
{"action": "broadcast", "message": "a question for every member"}
{"action": "delegate", "delegations": [{"target": "MEMBER", "message": "a question for this member"}]}
{"action": "end", "memo": "the council's memo, in Markdown"}"""


def prompt(state: State, one: Delegation, pad: str | None) -> str:
    """Everything that the member is sent for a delegation."""
    member = state.members[one.target]
    above = [] if member.introduced else [introduction(state, one, pad)]
    if member.owes_tail:
        above.append(told_again(state.tail(one.target), one))
    if one.private:
        above.append(one.private)
    parts = [
        *above,
        f"=== CURRENT REQUEST ===\n{one.message}",
        f"=== INSTRUCTIONS ===\n{_manner(state, one)}",
    ]
    return "\n\n".join(filter(None, parts))


def introduction(state: State, one: Delegation, pad: str | None) -> str:
    seat = state.profile.seat(one.target)
    role = one.role or (seat.role if seat else "")
    lines = [f'You are "{one.target}" in the council "{state.profile.name}".']
    if one.target == ORCHESTRATOR:
        lines.append("You lead it: you ask its members, and you do not answer in their place.")
        lines += [f"- {member.id}: {member.role}" for member in state.profile.perspectives]
    if role:
        lines.append(f"Your role: {role}")
    if pad is not None:
        lines.append(f"Your scratch pad is {pad}. Read it first; keep in it what you want to remember.")
    if state.brief.strip() not in one.message:
        lines.append(f"The brief of the council:\n{quoted(state.brief)}")
    return "\n".join(lines)


def told_again(tail: list[dict[str, Any]], now: Delegation) -> str:
    """A member's own past, for an agent that has lost it; the request it gets now is not part of it."""
    lines: list[str] = []
    room = TAIL_LIMIT
    for entry in reversed(tail):
        if entry["type"] == "delegation" and entry["delegation"] == now.id:
            continue
        line = (
            f"[round {entry['round']}] {_who(entry, now.target)}:\n{quoted(entry['text'], TAIL_ENTRY_LIMIT)}"
        )
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    if not lines:
        return ""
    intro = "This session was paused and has been resumed. This is what you took part in before."
    return "\n".join([RESUMED, intro, *reversed(lines)])


def _who(entry: dict[str, Any], agent_id: str) -> str:
    if entry["agent_id"] == agent_id:
        return "You were asked" if entry["type"] == "delegation" else "You answered"
    return (
        f"You asked {entry['agent_id']}" if entry["type"] == "delegation" else f"{entry['agent_id']} answered"
    )


def _manner(state: State, one: Delegation) -> str:
    if one.kind == "consult":
        return ACTIONS
    if one.kind == "memo":
        return "Answer with the memo alone, in Markdown."
    text = "Answer in your role, as yourself. Others do not see what stands above the request."
    if one.kind in ("ask", "child") and one.depth < state.profile.delegation.max_depth:
        text += (
            ' To have something looked into first, answer with one JSON object: {"delegate": '
            '[{"id": "NAME", "role": "…", "message": "…"}]}; you are told the answers and asked again.'
        )
    return text


def message(state: State, one: Round, target: str) -> str:
    """What a member is asked in a round by the scripted driver."""
    profile, number = state.profile, one.number
    step, _ = profile.step_of(number)
    planned = f" of {profile.last_round()}" if number <= profile.last_round() else ""
    head = f"Round {number}{planned}" + (f": {step.name}." if step else ".")
    parts = [head, *from_operator(one)]
    opening = number <= profile.delegation.opening_rounds
    if opening:
        parts.append(state.brief.strip())
    rivals = [] if opening else partners(state, target)
    for rival in rivals:
        said = state.position(rival, before=number)
        if said is not None:
            parts.append(f"{rival} said in round {said.round}:\n{quoted(said.answer)}")
    if is_last(state, target):
        parts += [
            f"{ask.target} says in this round:\n{quoted(ask.answer)}"
            for other in one.targets
            if not is_last(state, other) and (ask := state.said_in(one, other)) is not None
        ]
    usual = (
        "Give your position." if opening else "Answer it." if rivals else "Say what you hold now, and why."
    )
    parts.append(step.instruction if step and step.instruction else usual)
    return "\n\n".join(filter(None, parts))


def from_operator(one: Round) -> list[str]:
    """What the operator wants everyone to know in this round."""
    feedback = [f"The operator rejected the last result: {one.feedback}"] if one.feedback else []
    return feedback + [f"Note from the operator: {steer['text']}" for steer in one.steers if not steer["to"]]


def for_one(one: Round, target: str) -> str:
    """What the operator wants this member alone to know."""
    notes = [steer["text"] for steer in one.steers if steer["to"] == target]
    return "\n".join(f"Note from the operator, for you alone: {text}" for text in notes)


def partners(state: State, target: str) -> list[str]:
    pairs = state.profile.delegation.tension_pairs
    return [b if a == target else a for a, b in pairs if target in (a, b)]


def is_last(state: State, target: str) -> bool:
    seat = state.profile.seat(target)
    return seat is not None and seat.speaks_last


def report(state: State, children: list[Delegation]) -> str:
    parts = ["What you wanted looked into:"]
    for child in children:
        found = state.said_in(state.rounds[child.round], child.target)
        said = quoted(found.answer) if found else f"no answer: {child.detail}"
        parts.append(f"{child.target.rpartition('/')[2]}:\n{said}")
    return "\n\n".join([*parts, "Give your answer now."])


def consultation(state: State, number: int, why_not: list[str]) -> str:
    """What the orchestrator is told before a round."""
    used = [
        f"{one.constraint} {one.used:g}" + _of(one.bounds.max)
        for one in usage(state)
        if one.constraint != "time"
    ]
    parts = [f"Choose what happens in round {number}. So far: {', '.join(used)}."]
    parts += answers_of(state, number - 1)
    parts += [f"Note from the operator: {one['text']}" for one in state.steers if not one["to"]]
    if state.feedback:
        parts.append(f"The operator rejected the last result: {state.feedback}")
    parts.append("You may end it." if not why_not else f"You may not end it yet: {'; '.join(why_not)}.")
    return "\n\n".join(parts)


def answers_of(state: State, number: int) -> list[str]:
    last = state.rounds.get(number)
    asked = [ask for ask in state.asked_in(last) if ask.depth == 0] if last else []
    return [
        f"{ask.target} " + (f"said:\n{quoted(ask.answer)}" if ask.status == "answered" else "did not answer.")
        for ask in asked
        if ask.status != "answered" or state.said_in(last, ask.target) is ask  # type: ignore[arg-type]
    ]


def ask_for_memo(state: State) -> str:
    said = answers_of(state, max(state.rounds, default=0))
    return "\n\n".join(["The last round is over. Write the council's memo.", *said])


def memo(state: State) -> str:
    """The memo that the engine writes by itself: where everyone stands, those who speak last first."""
    profile = state.profile
    lines = [f"# Memo: {profile.name}", "## Brief", state.brief.strip(), "## Positions"]
    for seat in sorted(profile.perspectives, key=lambda one: not one.speaks_last):
        said = state.position(seat.id)
        lines.append(f"### {seat.id}" + (f" (round {said.round})" if said else ""))
        lines.append(said.answer.strip() if said else "No answer.")
    lines += ["## Course", *(_course(state, one) for _, one in sorted(state.rounds.items()))]
    return "\n\n".join(lines) + "\n"


def _course(state: State, one: Round) -> str:
    heard = [target for target in one.targets if state.said_in(one, target)]
    silent = [target for target in one.targets if target not in heard]
    ended = " (aborted)" if one.status == "aborted" else ""
    missing = f"; no answer from {', '.join(silent)}" if silent else ""
    return f"- Round {one.number}{ended}: {', '.join(heard) or 'nobody'}{missing}"


def quoted(text: str, limit: int = QUOTE_LIMIT) -> str:
    """A text as a quotation: nothing in it stands at the beginning of a line."""
    if len(text) > limit:
        text = text[:limit] + f"… [{len(text) - limit} characters are left out]"
    return "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))


def _of(most: float | None) -> str:
    return "" if most is None else f" of {most:g}"
