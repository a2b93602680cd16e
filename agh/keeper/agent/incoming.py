"""What comes from the agent: updates to record, responses to deliver, requests to answer.

A batch of frames is committed before any of it is acted on. A frame that makes no sense is recorded and
otherwise ignored: it ends nothing. A frame that cannot be handled becomes a `runtime_warning` that holds it,
and an error for the agent if it was a request; the other frames of its batch are not affected.
"""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.acp.chunks import Chunks
from agh.core.acp.frames import INTERNAL_ERROR, Frame, Malformed, Notification, Request, Response
from agh.core.acp.updates import (
    add_usage,
    event_of,
    known_usage,
    request_usage,
    thread_status,
    update_text,
)
from agh.core.events import MARKER_CREATED, timestamp
from agh.keeper.agent import (
    files,
    open_calls,
    options,
    permissions,
    questions,
    terminals,
    user_messages,
    waiting,
)
from agh.keeper.agent.connection import Agent
from agh.keeper.log import is_fatal
from agh.keeper.session import Live, Turn, cause_of
from agh.keeper.turns import usage as spending
from agh.keeper.turns.cancel import steer_at_boundary
from agh.keeper.turns.chunks import add_words, take_chunks
from agh.keeper.turns.usage import check_limits, count_bytes, is_over_bytes

# What an agent repeats when it restores a conversation; it is in the log already.
REPLAYED = (
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "plan_update",
    "plan_removed",
    "compaction_update",
    "compaction_summary_chunk",
)
MALFORMED_RECORDED, MALFORMED_COUNTED = 100, 100_000
INVALID_PARAMS = -32602
_SHOWN = ("agent_message", "thought", "tool_call", "tool_result", "plan")
_ANSWERS = ("agent_message", "tool_call", "tool_result")
_LATE = (*_SHOWN, "usage")


def take_frames(live: Live, frames: list[Frame]) -> None:
    """Record all frames in a single transaction, then act on them in order."""
    if live.log.failed:  # what the agent still sends must not follow what was lost
        return
    live.activity.note("agent_output")
    frames.reverse()
    with live.log.batch():
        while frames:  # empties the list: a long frame must be freed once its event is stored
            try:
                if live.turns.current is not None:
                    take_chunks(live, live.turns.current, frames)
            except Exception as error:
                live.survive(error)
            if frames:
                _take_next(live, frames)


def _take_next(live: Live, frames: list[Frame]) -> None:
    """Take the last frame out of the list, and record it."""
    frame = frames.pop()
    if isinstance(frame, Chunks):  # they mean more than their text
        frames += reversed(frame.parsed())
        return
    try:
        count_bytes(live, len(getattr(frame, "raw", b"")))
        _take(live, frame)
    except Exception as error:
        live.survive(error, raw=getattr(frame, "raw", None))


def _take(live: Live, frame: Request | Response | Notification | Malformed) -> None:
    agent = live.agent.connected
    if isinstance(frame, Notification):
        child = _child_session(live, frame)
        with live.log.as_child(child):
            _take_notification(live, frame, child)
    elif isinstance(frame, Response):
        if not agent.deliver(frame):
            number = agent.redactor.beginning(repr(frame.id), 80)
            _warn(live, f"the agent answered request {number}, which agh never sent", frame.raw)
    elif isinstance(frame, Request):
        with live.log.as_child(_child_session(live, frame)):
            _take_request(live, agent, frame)
    else:
        _take_malformed(live, agent, frame)


def _take_notification(live: Live, frame: Notification, child: str | None = None) -> None:
    params = frame.params if isinstance(frame.params, dict) else {}
    update = params.get("update")
    if frame.method == "$/cancel_request":
        waiting.withdraw(live, params.get("requestId"))
    elif frame.method == "elicitation/complete":
        questions.complete(live, params)
    if frame.method != "session/update" or not isinstance(update, dict):
        live.log.record("system", turn_id=_turn_id(live, "system"), title=frame.method, raw=frame.raw)
        return
    if is_over_bytes(live):
        _drop(live)
        return
    if live.agent.replaying and update.get("sessionUpdate") in REPLAYED:
        if update["sessionUpdate"] == "agent_message_chunk":
            live.agent.replayed_message = update.get("messageId")
        live.agent.replayed += 1
        return
    if child is not None:
        _take_child_update(live, frame, update)
        return
    if live.agent.user_message is not None or update.get("sessionUpdate") == user_messages.CHUNK:
        user_messages.follow_message(live, update)
    is_tool = update.get("sessionUpdate") in ("tool_call", "tool_call_update")
    type, fields = open_calls.tool_event_of(live, update) if is_tool else event_of(update)
    if type == "usage":
        fields["usage"] = known_usage(fields["usage"]) | {"timestamp": live.log.now}
    turn = live.turns.current
    if type == MARKER_CREATED:
        type, fields = _place_marker(live, fields, update)
    if turn is not None:
        _note(live, turn, type, fields, update)
    raw = frame.raw if frame.sanitized else update_text(frame.raw, update)
    if frame.sanitized:
        fields["sanitized"] = True
    live.log.record(type, turn_id=_turn_id(live, type), raw=raw, **fields)
    if type == "usage":
        spending.take_context_usage(live, fields["usage"])
        check_limits(live)
    elif type in ("tool_call", "tool_result"):
        if type == "tool_result":
            live.turns.left_open.pop(fields["tool_call_id"], None)
        if turn is not None:
            _follow_tool(live, turn, type, fields, update)
    elif type == "system":
        options.take_information(live, update)


def _child_session(live: Live, frame: Notification | Request) -> str | None:
    """Return the session that a frame belongs to if it is another than ours, as that of a subagent.

    While a session starts, its id is not known yet.
    """
    session = frame.params.get("sessionId") if isinstance(frame.params, dict) else None
    if not live.ready or not isinstance(session, str) or not session:
        return None
    own = (live.meta.get("acp_session_id"), *(live.meta.get("acp_session_ids") or ()))
    return None if session in own else session[:200]


def _take_child_update(live: Live, frame: Notification, update: dict[str, Any]) -> None:
    """Inside a batch: record what a child session says. It is no message, result or usage of our session.

    Its tool calls are noted all the same: a request for permission may be about one.
    """
    kind = str(update.get("sessionUpdate"))
    raw = frame.raw if frame.sanitized else update_text(frame.raw, update)
    live.log.record("system", turn_id=_turn_id(live, "system"), title=f"child session: {kind}", raw=raw)
    if live.turns.current is not None:
        live.turns.current.acted = True
        if kind in ("tool_call", "tool_call_update"):
            is_open = update.get("status") not in ("completed", "failed")
            open_calls.note_tool_call(live, update, is_open=is_open)


def _place_marker(live: Live, fields: dict[str, Any], update: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the event of a marker that the agent causes: one for each compaction, whatever it adds later."""
    compaction_id = update.get("compactionId")
    if compaction_id is not None:
        if str(compaction_id) in live.agent.compactions:
            return "system", {"title": f"compaction_update: {update.get('status')}"}
        live.agent.compactions.add(str(compaction_id))
    return MARKER_CREATED, {**fields, "occurred_at": timestamp(), "turn": live.turns.current_id or None}


def _drop(live: Live) -> None:
    """Leave out an update that came after a limit on bytes was reached; say so with the first one."""
    if not live.turns.dropped_updates:
        _warn(live, "the session is pausing; whatever its agent still sends is not recorded", b"null")
    live.turns.dropped_updates += 1


def _note(live: Live, turn: Turn, type: str, fields: dict[str, Any], update: dict[str, Any]) -> None:
    """Note what an update says about its turn: what was used, and whether something was shown or answered.

    Some agents send empty chunks just to carry `_meta`: those show nothing.
    """
    if type == "system" and (status := thread_status(update)) is not None:
        turn.failed_by_agent = status == "systemError"
    if type == "agent_message":
        add_words(turn, fields["text"])
    if "_meta" in update and (used := request_usage(update)) is not None:
        turn.usage = add_usage(turn.usage, used)
        spending.store_usage(live.log.db, turn.turn_id, turn.usage)
    if type not in _SHOWN or not (fields.get("text", True) or "title" in fields):
        return
    turn.acted = True
    if type == "agent_message" or (type == "tool_result" and not fields.get("tool_error")):
        turn.is_refused = False
    if type in _ANSWERS:
        turn.answered = True
        if live.turns.history is not None:  # it answers, so it has the prompt, and with it the history
            live.turns.history, live.meta["inject_history"] = None, False
            live.log.then(live.update)


def _follow_tool(live: Live, turn: Turn, type: str, fields: dict[str, Any], update: dict[str, Any]) -> None:
    """Note what an update says about its tool call; when a tool ends, a steering prompt may interject."""
    open_calls.note_tool_call(live, update, is_open=type == "tool_call")
    open_calls.follow_tool(turn, type, fields)
    if type == "tool_result":
        steer_at_boundary(live)


def _turn_id(live: Live, type: str) -> str:
    """Return the turn that an event belongs to; an agent's last updates may come after its answer."""
    if type == MARKER_CREATED:
        return ""
    return live.turns.current_id or (live.turns.last_id if type in _LATE else "")


def _take_request(live: Live, agent: Agent, frame: Request) -> None:
    params: dict[str, Any] = frame.params if isinstance(frame.params, dict) else {}
    if live.turns.current is not None:
        live.turns.current.acted = True
    handler = _HANDLERS.get(frame.method)
    if handler is None or (live.is_elsewhere and frame.method.startswith(("fs/", "terminal/"))):
        live.log.record("system", turn_id=_turn_id(live, "system"), title=frame.method, raw=frame.raw)
        live.log.then(lambda: waiting.pass_on(live, frame))
        return
    try:
        with live.step():
            handler(live, frame, params)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"bad parameters for {frame.method}: {error!r}"
        live.log.then(lambda: agent.refuse(frame.id, INVALID_PARAMS, reason))
    except Exception as error:
        if is_fatal(error):
            raise
        reason = f"{frame.method} failed: {cause_of(error)}"
        live.log.then(lambda: agent.refuse(frame.id, INTERNAL_ERROR, reason))
        live.survive(error, raw=frame.raw)


def _take_malformed(live: Live, agent: Agent, frame: Malformed) -> None:
    """Record the first few lines that are not messages, then only count them: they must not fill the disk."""
    live.agent.malformed += 1
    count = live.agent.malformed
    lost = agent.lost_answer(frame.tail) if frame.tail else None
    if lost is not None:
        agent.deliver(lost)
    if count > MALFORMED_RECORDED:
        if count % MALFORMED_COUNTED == 0:
            _warn(live, f"the agent has sent {count} lines that are not ACP messages", b"null")
        return
    raw = orjson.dumps({"length": frame.length, "sha256": frame.sha256, "head": frame.head}, default=repr)
    _warn(live, f"the agent sent a line that is not an ACP message: {frame.reason}", raw)


def _warn(live: Live, text: str, raw: bytes) -> None:
    live.log.record("runtime_warning", turn_id=live.turns.current_id, text=text, raw=raw)


_HANDLERS = {
    "session/request_permission": permissions.request_permission,
    "elicitation/create": questions.ask_question,
    "fs/read_text_file": files.read,
    "fs/write_text_file": files.write,
    "terminal/create": terminals.create,
    "terminal/output": terminals.output,
    "terminal/wait_for_exit": terminals.wait_for_exit,
    "terminal/kill": terminals.kill,
    "terminal/release": terminals.release,
}
