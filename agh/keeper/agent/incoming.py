"""What comes from the agent: updates to record, responses to settle, requests to answer.

A batch of frames is committed before any of it is acted on. A frame that makes no sense is recorded
and otherwise ignored: it ends nothing. One that cannot be handled is a `runtime_warning` with the frame in
it, and an error for the agent if it was a request; the other frames of its batch are not affected.
"""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.frames import INTERNAL_ERROR, Frame, Malformed, Notification, Request, Response
from agh.core.updates import add_usage, event_of, request_usage, update_text
from agh.keeper.agent import files, permissions, terminals
from agh.keeper.agent.connection import Agent
from agh.keeper.session import Live, Turn, cause_of
from agh.keeper.turns import turn as turns
from agh.keeper.turns import usage as spending

# What an agent tells again when it restores a conversation; it is in the log already.
REPLAYED = (
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
)
NONSENSE_KEPT, NONSENSE_COUNTED = 100, 100_000
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
_SHOWN = ("agent_message", "thought", "tool_call", "tool_result", "plan")
_ANSWERS = ("agent_message", "tool_call", "tool_result")
_LATE = (*_SHOWN, "usage")


def take_frames(live: Live, frames: list[Frame]) -> None:
    """Everything in one transaction; the acts follow it in order."""
    live.active("agent_output")
    frames.reverse()
    with live.batch():
        while frames:  # the list is emptied: a long frame must be gone when its event is stored
            frame = frames.pop()
            try:
                _take(live, frame)
            except Exception as error:
                live.survive(error, raw=getattr(frame, "raw", None))
            del frame


def _take(live: Live, frame: Frame) -> None:
    agent = live.agent
    assert agent is not None
    if isinstance(frame, Notification):
        _notification(live, frame)
    elif isinstance(frame, Response):
        if not agent.settle(frame):
            number = agent.redactor.beginning(repr(frame.id), 80)
            _warn(live, f"the agent answered request {number}, which nobody asked", frame.raw)
    elif isinstance(frame, Request):
        _request(live, agent, frame)
    else:
        _malformed(live, agent, frame)


def _notification(live: Live, frame: Notification) -> None:
    params = frame.params if isinstance(frame.params, dict) else {}
    update = params.get("update")
    if frame.method == "$/cancel_request":
        permissions.withdraw(live, params.get("requestId"))
    if frame.method != "session/update" or not isinstance(update, dict):
        live.record("system", turn_id=_turn_id(live, "system"), title=frame.method, raw=frame.raw)
        return
    if live.replaying and update.get("sessionUpdate") in REPLAYED:
        live.replayed += 1
        return
    type, fields = event_of(update)
    if live.turn is not None:
        _note(live, live.turn, type, fields, update)
    raw = frame.raw if frame.sanitized else update_text(frame.raw, update)
    if frame.sanitized:
        fields["sanitized"] = True
    live.record(type, turn_id=_turn_id(live, type), raw=raw, **fields)
    if type == "usage":
        spending.take_context_usage(live, fields["usage"])
        turns.check_limits(live)
    elif live.turn is not None and type in ("tool_call", "tool_result"):
        _follow_tool(live, live.turn, type, fields)
    if update.get("sessionUpdate") == "session_info_update" and isinstance(update.get("title"), str):
        title = update["title"][:200]
        live.then(lambda: live.update(sync=False, title=title))


def _note(live: Live, turn: Turn, type: str, fields: dict[str, Any], update: dict[str, Any]) -> None:
    """What an update says of its turn: what was used, and that something was shown or answered.

    Some agents send empty chunks for the sake of their `_meta`: those show nothing.
    """
    if "_meta" in update and (used := request_usage(update)) is not None:
        turn.usage = add_usage(turn.usage, used)
        spending.store_usage(live, turn.turn_id, turn.usage)
    if type not in _SHOWN or not (fields.get("text", True) or "title" in fields):
        return
    turn.acted = True
    if type in _ANSWERS:
        turn.said_something = True
        if live.history is not None:  # it answers, so it has the prompt, and with it the history
            live.history, live.meta["inject_history"] = None, False
            live.then(live.update)


def _follow_tool(live: Live, turn: Turn, type: str, fields: dict[str, Any]) -> None:
    """Know which tools are running; the end of one is where a steering prompt may come in."""
    if type == "tool_call":
        name = fields.get("tool_name") or fields.get("title") or turn.tools.get(fields["tool_call_id"])
        turn.tools[fields["tool_call_id"]] = str(name or "tool")
    else:
        turn.tools.pop(fields["tool_call_id"], None)
        turns.steer_at_boundary(live)


def _turn_id(live: Live, type: str) -> str:
    """The turn in which something happened; the agent's last words may come after its answer."""
    if live.turn is not None:
        return live.turn.turn_id
    return live.last_turn_id if type in _LATE else ""


def _request(live: Live, agent: Agent, frame: Request) -> None:
    params: dict[str, Any] = frame.params if isinstance(frame.params, dict) else {}
    if live.turn is not None:
        live.turn.acted = True
    handler = _HANDLERS.get(frame.method)
    if handler is None or (live.is_elsewhere and not frame.method.startswith("session/")):
        if frame.method == "elicitation/create":
            live.record("system", turn_id=_turn_id(live, "system"), title=frame.method, raw=frame.raw)
            live.then(lambda: agent.reply(frame.id, {"action": "decline"}))
            return
        live.record("system", turn_id=_turn_id(live, "system"), title=frame.method, raw=frame.raw)
        live.then(lambda: agent.refuse(frame.id, METHOD_NOT_FOUND, f"agh does not serve {frame.method}"))
        return
    try:
        with live.step():
            handler(live, frame, params)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"bad parameters for {frame.method}: {error!r}"
        live.then(lambda: agent.refuse(frame.id, INVALID_PARAMS, reason))
    except Exception as error:
        if live.is_fatal(error):
            raise
        reason = f"{frame.method} failed: {cause_of(error)}"
        live.then(lambda: agent.refuse(frame.id, INTERNAL_ERROR, reason))
        live.survive(error, raw=frame.raw)


def _malformed(live: Live, agent: Agent, frame: Malformed) -> None:
    """Recorded each for the first few, then as a count: nonsense must not fill the disk."""
    live.nonsense += 1
    lost = agent.lost_answer(frame.tail) if frame.tail else None
    if lost is not None:
        agent.settle(lost)
    if live.nonsense > NONSENSE_KEPT:
        if live.nonsense % NONSENSE_COUNTED == 0:
            _warn(live, f"the agent has sent {live.nonsense} lines that are not messages", b"null")
        return
    told = {"length": frame.length, "sha256": frame.sha256, "head": frame.head}
    raw = orjson.dumps(told, default=repr)
    _warn(live, f"the agent sent something that is not a message: {frame.reason}", raw)


def _warn(live: Live, text: str, raw: bytes) -> None:
    live.record("runtime_warning", turn_id=live.turn.turn_id if live.turn else "", text=text, raw=raw)


_HANDLERS = {
    "session/request_permission": permissions.asked,
    "fs/read_text_file": files.read,
    "fs/write_text_file": files.write,
    "terminal/create": terminals.create,
    "terminal/output": terminals.output,
    "terminal/wait_for_exit": terminals.wait_for_exit,
    "terminal/kill": terminals.kill,
    "terminal/release": terminals.release,
}
