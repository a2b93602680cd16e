"""Councils as they are shown: what the commands print. Reading never writes."""

from __future__ import annotations

import os
from typing import Any

from agh.console import terminal
from agh.console.output import columns
from agh.store.checkpoint import paused_at
from agh.store.reader import Reader
from agh.store.views import session_view
from agh_council.limits import usage
from agh_council.state import Delegation, State
from agh_council.store import councils, read_state

View = dict[str, Any]


def council_view(directory: str) -> View:
    """A council: its session, members, rounds, what bounds it, and the memo."""
    state, session = read_state(directory), session_view(directory)
    with Reader(directory) as reader:
        _, _, state.elapsed = paused_at(reader)
    gate = state.waiting_gate
    return {
        "session_id": session["id"],
        "name": state.profile.name,
        "phase": session["phase"],
        "badge": session["badge"],
        "stop_reason": session.get("stop_reason"),
        "stop_detail": session.get("stop_detail"),
        "brief": state.brief,
        "members": [
            {
                "agent_id": one.agent_id,
                "session_id": one.session_id,
                "restore": one.restore,
                "depth": one.depth,
            }
            for one in state.members.values()
        ],
        "rounds_completed": state.rounds_completed,
        "rounds": rounds(state),
        "gate": gate and {"after_round": gate["round"], "prompt": gate["prompt"]},
        "constraints": {
            one.constraint: {"used": one.used, "min": one.bounds.min, "max": one.bounds.max, "left": one.left}
            for one in usage(state)
        }
        | ({} if session["state"] == "active" else {"time": _time_after_resume(state)}),
        "memo": os.path.join(state.workspace, state.memo["path"]) if state.memo else None,
        "session": session,
    }


def _time_after_resume(state: State) -> View:
    """Time is counted from the last start; a council that is not live has all of it before it."""
    bounds = state.profile.constraints.time
    return {"used": state.elapsed, "min": bounds.min, "max": bounds.max, "left": bounds.max}


def rounds(state: State) -> list[View]:
    return [
        {
            "round": one.number,
            "attempt": one.attempt,
            "status": one.status,
            "targets": one.targets,
            "fallback": one.fallback or None,
            "delegations": [delegation(ask) for ask in state.asked_in(one)],
        }
        for _, one in sorted(state.rounds.items())
    ]


def delegation(one: Delegation) -> View:
    shown = ("id", "target", "round", "kind", "status", "message", "answer", "detail", "tries", "depth")
    return {key: getattr(one, key) for key in shown}


def outcome(state: State) -> View:
    """What a council came to, however often it was interrupted: the same for the same deliberation."""
    return {
        "rounds": [
            (one.number, one.attempt, one.status, one.targets) for _, one in sorted(state.rounds.items())
        ],
        "delegations": sorted(
            (one.id, one.target, one.status, one.message, one.answer) for one in state.delegations.values()
        ),
        "gates": {number: gate["status"] for number, gate in state.gates.items()},
        "memo": state.memo and state.memo["text"],
    }


def summary(view: View) -> str:
    """A council for people."""
    lines = [("council", f"{view['session_id']}  {view['name']}"), ("phase", view["phase"])]
    if view["stop_detail"]:
        lines.append(("because", view["stop_detail"]))
    lines += [("member", f"{one['agent_id']}  {one['session_id']}") for one in view["members"]]
    for one in view["rounds"]:
        told = ", ".join(f"{ask['target']} {ask['status']}" for ask in one["delegations"])
        lines.append((f"round {one['round']}", f"{one['status']}: {told}"))
    for name, one in view["constraints"].items():
        if one["max"] is not None:
            lines.append((name, f"{one['used']:g} of {one['max']:g}, {one['left']:g} left"))
    if view["gate"]:
        lines.append(("gate", view["gate"]["prompt"]))
        lines.append(("next", f"agh council gate approve {view['session_id']}"))
    if view["memo"]:
        lines.append(("memo", view["memo"]))
    return "\n".join(f"{label + ':':<10}{terminal.one_line(str(text), 1000)}" for label, text in lines)


def list_view() -> list[View]:
    """Every council, newest first."""
    found = []
    for directory, _ in councils():
        state, session = read_state(directory), session_view(directory)
        found.append(
            {
                "session_id": session["id"],
                "name": state.profile.name,
                "phase": session["phase"],
                "badge": session["badge"],
                "rounds_completed": state.rounds_completed,
                "members": list(state.members),
                "updated_at": session.get("updated_at"),
            }
        )
    return found[::-1]


def table(views: list[View]) -> str:
    rows = [
        (one["session_id"], one["badge"], str(one["rounds_completed"]), terminal.one_line(one["name"], 60))
        for one in views
    ]
    return columns(("ID", "BADGE", "ROUNDS", "NAME"), rows) if rows else ""


def talk(state: State) -> list[View]:
    """Who was asked what in which round, and what they answered, in order."""
    return [
        {key: one[key] for key in ("id", "type", "round", "agent_id", "text", "timestamp")}
        for one in state.talk
    ]


def talk_text(state: State) -> str:
    """The deliberation as Markdown."""
    lines = [f"# {state.profile.name}", state.brief.strip()]
    number = 0
    for one in state.talk:
        if one["round"] != number:
            number = one["round"]
            lines.append(f"## Round {number}")
        who = f"to {one['agent_id']}" if one["type"] == "delegation" else one["agent_id"]
        lines.append(f"### {who}\n\n{one['text'].strip()}")
    if state.memo:
        lines.append(f"## Memo\n\n{state.memo['text'].strip()}")
    return "\n\n".join(lines) + "\n"
