"""Building a council's state from its log. Pure: the same rows give the same state.

The council's own events are `system` events with an `action` and a `council` object; an answer is an
`agent_message`. There is one function per action, in `_HANDLERS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agh.core.events import Row, event_id
from agh_council.profile import Bounds, read_profile
from agh_council.state import Delegation, Member, Round, State

LOST_MEMORY = ("inject_history", "idle_boot")


def fold(rows: Iterable[Row], session_id: str = "") -> State:
    """Return the state after these rows."""
    state = State(session_id=session_id)
    for row in rows:
        apply(state, row)
    return state


def apply(state: State, row: Row) -> None:
    """Update the state with the next row of the log."""
    state.sequence = row.sequence
    if row.type == "session_resumed":
        state.resumed_sequence = row.sequence
        state.warned.discard("time")
    content = row.parsed()
    payload = content.get("council")
    if not isinstance(payload, dict):
        return
    state.spent = round(state.spent + (payload.get("cost") or 0.0), 9)
    if row.type == "agent_message":
        _apply_answer(state, payload["delegation"], str(content.get("text") or ""), row)
    elif row.type == "user_message":
        state.turn_counts[payload["round"]] = state.turn_counts.get(payload["round"], 0) + 1
    elif row.type == "system":
        handler = _HANDLERS.get(str(content.get("action")))
        if handler is not None:
            handler(state, payload, row)


def _apply_opened(state: State, payload: dict[str, Any], row: Row) -> None:
    state.profile = read_profile(payload["profile"])
    state.brief, state.workspace = payload["brief"], payload["workspace"]


def _apply_limits(state: State, payload: dict[str, Any], row: Row) -> None:
    """Replace the maximums that the council was resumed with."""
    bounds = {
        name: Bounds(getattr(state.profile.constraints, name).min, maximum)
        for name, maximum in payload["maximums"].items()
    }
    state.profile = replace(state.profile, constraints=replace(state.profile.constraints, **bounds))
    state.warned -= set(bounds)


def _apply_member(state: State, payload: dict[str, Any], row: Row) -> None:
    previous = state.members.get(payload["agent_id"])
    lost_memory = (payload.get("restore") or {}).get("strategy") in LOST_MEMORY
    state.members[payload["agent_id"]] = Member(
        **{key: payload[key] for key in ("agent_id", "session_id", "acp_session_id", "restore")},
        parent_agent_id=payload.get("parent_agent_id"),
        depth=payload.get("depth") or 0,
        introduced=previous is not None and previous.introduced and not lost_memory,
        needs_tail=lost_memory or (previous is not None and previous.needs_tail),
    )


def _apply_round(state: State, payload: dict[str, Any], row: Row) -> None:
    number = payload["number"]
    if payload["status"] != "open":
        state.rounds[number].status = payload["status"]
        return
    keys = ("number", "attempt", "targets", "messages", "steers", "feedback", "fallback")
    state.rounds[number] = Round(**{key: payload[key] for key in keys})
    state.attempts[number] = payload["attempt"]
    included = {steer["id"] for steer in payload["steers"]}
    state.steers = [steer for steer in state.steers if steer["id"] not in included]
    state.feedback = ""


def _apply_delegation(state: State, payload: dict[str, Any], row: Row) -> None:
    delegation = state.delegations.get(payload["id"])
    if delegation is None:
        keys = ("id", "target", "round", "message", "kind", "private", "depth", "parent", "role")
        delegation = Delegation(**{key: payload[key] for key in keys})
        state.delegations[delegation.id] = delegation
        if delegation.round in state.rounds and delegation.kind in ("ask", "child", "report"):
            state.rounds[delegation.round].asked.append(delegation.id)
        text = "\n\n".join(filter(None, [delegation.private, delegation.message]))
        _add_message(state, delegation, "delegation", text, row)
    delegation.status, delegation.sequence = payload["status"], row.sequence
    delegation.tries = payload.get("tries") or delegation.tries
    delegation.detail = payload.get("detail") or ""
    delegation.message = payload.get("message") or delegation.message


def _apply_answer(state: State, delegation_id: str, text: str, row: Row) -> None:
    delegation = state.delegations[delegation_id]
    delegation.status, delegation.answer, delegation.detail = "answered", text, ""
    delegation.sequence = row.sequence
    member = state.members.get(delegation.target)
    if member is not None:
        member.introduced, member.needs_tail = True, False
    _add_message(state, delegation, "answer", text, row)


def _add_message(state: State, delegation: Delegation, type: str, text: str, row: Row) -> None:
    state.messages.append(
        {
            "id": event_id(row.sequence),
            "type": type,
            "delegation": delegation.id,
            "round": delegation.round,
            "agent_id": delegation.target,
            "parent_agent_id": delegation.target.rpartition("/")[0] or None,
            "text": text,
            "timestamp": row.timestamp,
        }
    )


def _apply_gate(state: State, payload: dict[str, Any], row: Row) -> None:
    """Remember the gate; if it was rejected, forget the rounds of the step before it."""
    state.gates[payload["round"]], state.gate_sequence = payload, row.sequence
    if payload["status"] == "rejected":
        _, first = state.profile.step_of(payload["round"])
        for number in [number for number in state.rounds if number >= first]:
            del state.rounds[number]
        state.feedback = payload.get("feedback") or ""


def _apply_steer(state: State, payload: dict[str, Any], row: Row) -> None:
    state.steers.append(payload)


def _apply_constraint(state: State, payload: dict[str, Any], row: Row) -> None:
    state.warned.add(payload["constraint"])


def _apply_expertise(state: State, payload: dict[str, Any], row: Row) -> None:
    state.scratch_pads[payload["agent_id"]] = payload["text"]


def _apply_memo(state: State, payload: dict[str, Any], row: Row) -> None:
    state.memo = payload


_HANDLERS = {
    "opened": _apply_opened,
    "limits": _apply_limits,
    "member": _apply_member,
    "round": _apply_round,
    "delegation": _apply_delegation,
    "gate": _apply_gate,
    "steer": _apply_steer,
    "constraint": _apply_constraint,
    "expertise": _apply_expertise,
    "memo": _apply_memo,
}
