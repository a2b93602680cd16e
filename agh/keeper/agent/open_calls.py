"""The open tool calls of a turn: what the agent has said about them.

The requests that are about them need it, and so do their results.

Promises: a tool call that its agent can no longer finish has a result, whose outcome is unknown.
"""

from __future__ import annotations

from typing import Any

from agh.core.acp.tool_calls import read_tool_call
from agh.core.acp.tool_result import carry
from agh.core.acp.updates import event_of
from agh.core.events import TOOL_NAMES, unknown_result
from agh.keeper.agent.permissions import PendingRequest, ask_about, decide, find_subject
from agh.keeper.agent.terminals import output_of
from agh.keeper.agent.tool_call import Subject
from agh.keeper.session import LeftOpen, Live, Turn

MAX_CALLS = 1000  # of a turn
MAX_OUTPUTS = 100
_NAMES = ("title", "kind", "name")


def tool_event_of(live: Live, update: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the event of a tool call's update; its result has what the earlier updates said.

    Only the names stay after the result: an agent may still send an update for it.
    """
    turn, call_id = live.turns.current, str(update.get("toolCallId"))
    if turn is None:
        return event_of(update)
    earlier = turn.outputs.pop(call_id, {})
    type, fields = event_of(update, earlier, lambda name: output_of(live.agent, name))
    carried = carry(earlier, update)
    if type == "tool_result":
        carried = {key: carried[key] for key in _NAMES if key in carried}
    turn.outputs[call_id] = carried
    if len(turn.outputs) > MAX_OUTPUTS:
        del turn.outputs[next(iter(turn.outputs))]
    return type, fields


def note_tool_call(live: Live, update: dict[str, Any], *, is_open: bool) -> None:
    """Inside a batch: note what an update says about its tool call; requests about it become other ones.

    A tool call that has ended takes along what was allowed for it.
    """
    turn, call_id = live.turns.current, str(update.get("toolCallId"))
    if turn is None:
        return
    if not is_open:
        turn.calls.pop(call_id, None)
        turn.grants = [grant for grant in turn.grants if grant.tool_call_id != call_id]
        return
    news = read_tool_call(update)
    turn.calls[call_id] = turn.calls[call_id].updated(news) if call_id in turn.calls else news
    if len(turn.calls) > MAX_CALLS:
        del turn.calls[next(iter(turn.calls))]
    for request in list(live.agent.requests.values()):
        if request.own is not None and request.subject.tool_call_id == call_id:
            subject = find_subject(live, request.own, request.subject.title, call_id)
            if subject.fields() != request.subject.fields():
                _ask_anew(live, request, subject)


def follow_tool(turn: Turn, type: str, fields: dict[str, Any]) -> None:
    """Note which tools are running, by what name."""
    call_id = fields["tool_call_id"]
    if type == "tool_result":
        turn.tools.pop(call_id, None)
    else:
        news = {name: fields[name] for name in TOOL_NAMES if fields.get(name) is not None}
        turn.tools[call_id] = {**turn.tools.get(call_id, {}), **news}


def close_calls(live: Live, turn: Turn) -> None:
    """Inside a batch: record a result for each tool call that the turn's agent will not finish any more."""
    for call_id, call in turn.tools.items():
        live.log.record("tool_result", turn_id=turn.turn_id, **unknown_result(call_id, call))
    turn.tools.clear()


def leave_open(live: Live, turn: Turn) -> None:
    """Keep the open tool calls of a turn that ended well: their results may come later."""
    live.turns.left_open |= {call_id: LeftOpen(turn.turn_id, call) for call_id, call in turn.tools.items()}
    while len(live.turns.left_open) > MAX_CALLS:
        del live.turns.left_open[next(iter(live.turns.left_open))]


def close_left_open(live: Live) -> None:
    """Inside a batch: record a result for each tool call that earlier turns have left open."""
    for call_id, (turn_id, call) in live.turns.left_open.items():
        live.log.record("tool_result", turn_id=turn_id, **unknown_result(call_id, call))
    live.turns.left_open.clear()


def _ask_anew(live: Live, request: PendingRequest, subject: Subject) -> None:
    """Inside a batch: replace a request whose tool call has changed: no answer to it counts any more."""
    live.agent.requests[request.request_id] = request._replace(finish=lambda option: None, rpc_id=None)
    decide(live, request.request_id, "cancel", "changed")
    ask_about(live, subject, request.options, request.raw, request.finish, request.rpc_id, own=request.own)
