"""Repairing a log whose keeper died: a plan of events to append. Pure; never edits existing rows.

Promises: applying a plan twice has the same effect as applying it once; a plan only adds after the last row;
it closes every open turn, not only the last. A tool call without a result gets one whose outcome is
"unknown", even if its turn has ended: it never counts as a success.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agh.core.events import TURN_END_TYPES, Draft, Row, draft, unknown_result
from agh.core.named_tuple import NamedTuple

INTERRUPTED = "the turn was interrupted: its keeper ended before the agent finished"

Fields = tuple[str, dict[str, Any]]  # the type of an event, and what else `draft` is called with


class Plan:
    """A repair. `issues` and `actions` are for reports; `events` are to be appended, in this order.

    As a dataclass, it would add 1 ms to every start of a session.
    """

    def __init__(self) -> None:
        self.issues: list[dict[str, Any]] = []
        self.actions: list[dict[str, Any]] = []
        self.events: list[Draft | Fields] = []

    def append(self, type: str, **fields: Any) -> None:
        """Plan to append an event."""
        self.events.append((type, fields))

    @property
    def drafts(self) -> list[Draft]:
        """Draft the events to append. A dry run needs no drafts."""
        return [event if isinstance(event, Draft) else draft(event[0], **event[1]) for event in self.events]


class Permission(NamedTuple):
    """A permission request that has no decision yet."""

    request_id: str
    turn_id: str
    tool_call_id: str | None
    action: str
    resource: str | None


class OpenQuestion(NamedTuple):
    """A question of the agent that has no answer yet."""

    request_id: str
    turn_id: str
    tool_call_id: str | None


class _OpenTurn:
    """A turn with something open: its last row, and its tool calls without a result."""

    def __init__(self, last: Row, ended: bool) -> None:
        self.last, self.ended = last, ended
        self.tools: dict[str, tuple[Row, dict[str, Any]]] = {}
        self.finished: set[str] = set()


def plan(
    rows: Iterable[Row],
    at: str,
    orphaned: Iterable[Permission] = (),
    questions: Iterable[OpenQuestion] = (),
    ended: Iterable[str] = (),
) -> Plan:
    """Plan the repair of a log with these rows: all of them, or at least those of every open turn.

    `orphaned` are the permission requests that can no longer be answered; `questions` can still be, by a
    prompt. `ended` are turns whose ends are not among the rows.
    """
    repair = Plan()
    for request in orphaned:
        _expire(repair, request, at)
    for question in questions:
        _orphan(repair, question, at)
    for turn_id, turn in _open_turns(rows, set(ended)).items():
        if not turn.ended:
            detail = "the turn has neither a done nor an error event"
            repair.issues.append(issue("open_turn", "error", detail, turn_id, turn.last.id))
        for call_id, (row, content) in turn.tools.items():
            detail = f"tool call {call_id} has no result"
            repair.issues.append(issue("dangling_tool_call", "warning", detail, turn_id, row.id))
            repair.append(
                "tool_result",
                turn_id=turn_id,
                agent_session=content.get("session_id"),
                at=at,
                **unknown_result(call_id, content),
            )
            repair.actions.append(action("append_tool_result", turn_id, call_id, content.get("tool_name")))
        if not turn.ended:
            _close(repair, turn_id, turn.last.parsed().get("session_id"), at)
    return repair


def _close(repair: Plan, turn_id: str, agent_session: str | None, at: str) -> None:
    repair.append(
        "error",
        turn_id=turn_id,
        agent_session=agent_session,
        at=at,
        error=INTERRUPTED,
        stop_reason="interrupted",
    )
    repair.actions.append(action("append_error", turn_id))


def _expire(repair: Plan, request: Permission, at: str) -> None:
    detail = f"permission request {request.request_id} has no answer"
    repair.issues.append(issue("orphaned_permission", "warning", detail, request.turn_id))
    repair.actions.append(action("expire_permission", request.turn_id, request.tool_call_id))
    repair.append(
        "permission",
        turn_id=request.turn_id,
        at=at,
        request_id=request.request_id,
        tool_call_id=request.tool_call_id,
        action=request.action,
        resource=request.resource,
        decision="expired",
    )


def _orphan(repair: Plan, question: OpenQuestion, at: str) -> None:
    detail = f"question {question.request_id} has no answer"
    repair.issues.append(issue("orphaned_question", "warning", detail, question.turn_id))
    repair.actions.append(action("orphan_question", question.turn_id, question.tool_call_id))
    repair.append(
        "question",
        turn_id=question.turn_id,
        at=at,
        request_id=question.request_id,
        decision="orphaned",
        decided_by="repair",
    )


def _open_turns(rows: Iterable[Row], ended: set[str]) -> dict[str, _OpenTurn]:
    """Return the turns that have no end, then those that have a tool call without a result."""
    turns: dict[str, _OpenTurn] = {}
    for row in rows:
        if not row.turn_id:
            continue
        if row.turn_id not in turns:
            turns[row.turn_id] = _OpenTurn(row, row.turn_id in ended)
        turn = turns[row.turn_id]
        turn.last = row
        if row.type in TURN_END_TYPES:
            turn.ended = True
        elif row.type in ("tool_call", "tool_result"):
            content = row.parsed()
            call_id = str(content.get("tool_call_id") or row.id)
            if row.type == "tool_result":
                turn.tools.pop(call_id, None)
                turn.finished.add(call_id)
            elif call_id not in turn.finished:
                earlier = turn.tools.get(call_id, (row, {}))[1]
                update = {key: value for key, value in content.items() if value is not None}
                turn.tools[call_id] = (row, {**earlier, **update})
    no_end = {turn_id: turn for turn_id, turn in turns.items() if not turn.ended}
    dangling = [(turn_id, turn) for turn_id, turn in turns.items() if turn.ended and turn.tools]
    dangling.sort(key=lambda entry: min(row.sequence for row, _ in entry[1].tools.values()))
    return no_end | dict(dangling)


def issue(
    code: str, severity: str, detail: str, turn_id: str = "", event_id: str | None = None
) -> dict[str, Any]:
    return {"code": code, "severity": severity, "turn_id": turn_id, "event_id": event_id, "detail": detail}


def action(
    code: str, turn_id: str = "", tool_call_id: str | None = None, tool_name: str | None = None
) -> dict[str, Any]:
    return {
        "code": code,
        "turn_id": turn_id,
        "event_id": None,
        "tool_call_id": tool_call_id,
        "tool_name": tool_name,
        "persisted": False,
    }
