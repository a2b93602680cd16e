"""Councils as the commands print them: as JSON, as tables, as Markdown. Reading never writes."""

from __future__ import annotations

import os
from typing import Any

from agh.console import terminal
from agh.console.output import columns
from agh.home import Session
from agh.store.checkpoint import paused_at
from agh.store.reader import Reader
from agh.store.views import session_view
from agh_council.limits import usages
from agh_council.state import Delegation, State
from agh_council.store import list_councils, read_state

View = dict[str, Any]


def council_view(session: Session) -> View:
    """Return a council with its session, members, rounds, limits and memo."""
    state, view = read_state(session), session_view(session)
    with Reader(session) as reader:
        _, _, state.elapsed = paused_at(reader)
    gate = state.waiting_gate
    return {
        "session_id": view["id"],
        "name": state.profile.name,
        "phase": view["phase"],
        "badge": view["badge"],
        "stop_reason": view.get("stop_reason"),
        "stop_detail": view.get("stop_detail"),
        "brief": state.brief,
        "members": [
            {
                "agent_id": member.agent_id,
                "session_id": member.session_id,
                "restore": member.restore,
                "depth": member.depth,
            }
            for member in state.members.values()
        ],
        "rounds_completed": state.rounds_completed,
        "rounds": round_views(state),
        "gate": gate and {"after_round": gate["round"], "prompt": gate["prompt"]},
        "constraints": _constraint_views(state, is_live=view["state"] == "active"),
        "memo": os.path.join(state.workspace, state.memo["path"]) if state.memo else None,
        "session": view,
    }


def _constraint_views(state: State, is_live: bool) -> View:
    """Return the use of each limit. A council that is not live has all of its time left.

    Time is counted from the last start, so a resume begins with the whole maximum.
    """
    views = {
        usage.constraint: {
            "used": usage.used,
            "min": usage.bounds.min,
            "max": usage.bounds.max,
            "left": usage.left,
        }
        for usage in usages(state)
    }
    if not is_live:
        views["time"]["left"] = views["time"]["max"]
    return views


def round_views(state: State) -> list[View]:
    return [
        {
            "round": round_.number,
            "attempt": round_.attempt,
            "status": round_.status,
            "targets": round_.targets,
            "fallback": round_.fallback or None,
            "delegations": [delegation_view(delegation) for delegation in state.delegations_in(round_)],
        }
        for round_ in state.sorted_rounds
    ]


def delegation_view(delegation: Delegation) -> View:
    keys = ("id", "target", "round", "kind", "status", "message", "answer", "detail", "tries", "depth")
    return {key: getattr(delegation, key) for key in keys}


def outcome_view(state: State) -> View:
    """Return the outcome of a council; it does not depend on how often the council was interrupted."""
    return {
        "rounds": [
            (round_.number, round_.attempt, round_.status, round_.targets) for round_ in state.sorted_rounds
        ],
        "delegations": sorted(
            (delegation.id, delegation.target, delegation.status, delegation.message, delegation.answer)
            for delegation in state.delegations.values()
        ),
        "gates": {number: gate["status"] for number, gate in state.gates.items()},
        "memo": state.memo and state.memo["text"],
    }


def format_summary(view: View) -> str:
    """Return a council as labelled lines."""
    lines = [("council", f"{view['session_id']}  {view['name']}"), ("phase", view["phase"])]
    if view["stop_detail"]:
        lines.append(("because", view["stop_detail"]))
    lines += [("member", f"{member['agent_id']}  {member['session_id']}") for member in view["members"]]
    for round_ in view["rounds"]:
        statuses = [f"{delegation['target']} {delegation['status']}" for delegation in round_["delegations"]]
        lines.append((f"round {round_['round']}", f"{round_['status']}: {', '.join(statuses)}"))
    for name, limit in view["constraints"].items():
        if limit["max"] is not None:
            lines.append((name, f"{limit['used']:g} of {limit['max']:g}, {limit['left']:g} left"))
    if view["gate"]:
        lines.append(("gate", view["gate"]["prompt"]))
        lines.append(("next", f"agh council gate approve {view['session_id']}"))
    if view["memo"]:
        lines.append(("memo", view["memo"]))
    return "\n".join(f"{label + ':':<10}{terminal.one_line(str(text), 1000)}" for label, text in lines)


def list_view() -> list[View]:
    """Return every council, newest first."""
    views = []
    for session, _ in list_councils():
        state, view = read_state(session), session_view(session)
        views.append(
            {
                "session_id": view["id"],
                "name": state.profile.name,
                "phase": view["phase"],
                "badge": view["badge"],
                "rounds_completed": state.rounds_completed,
                "members": list(state.members),
                "updated_at": view.get("updated_at"),
            }
        )
    return views[::-1]


def format_table(views: list[View]) -> str:
    rows = [
        (
            view["session_id"],
            view["badge"],
            str(view["rounds_completed"]),
            terminal.one_line(view["name"], 60),
        )
        for view in views
    ]
    return columns(("ID", "BADGE", "ROUNDS", "NAME"), rows) if rows else ""


def message_views(state: State) -> list[View]:
    """Return the requests to members and their answers, in order."""
    keys = ("id", "type", "round", "agent_id", "text", "timestamp")
    return [{key: message[key] for key in keys} for message in state.messages]


def format_transcript(state: State) -> str:
    """Return the deliberation as Markdown."""
    lines = [f"# {state.profile.name}", state.brief.strip()]
    number = 0
    for message in state.messages:
        if message["round"] != number:
            number = message["round"]
            lines.append(f"## Round {number}")
        is_request = message["type"] == "delegation"
        heading = f"to {message['agent_id']}" if is_request else message["agent_id"]
        lines.append(f"### {heading}\n\n{message['text'].strip()}")
    if state.memo:
        lines.append(f"## Memo\n\n{state.memo['text'].strip()}")
    return "\n\n".join(lines) + "\n"
