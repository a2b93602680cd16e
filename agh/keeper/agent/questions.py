"""Questions of the agent (`elicitation/create`): durable rows until someone answers.

Promises: a question and its answer are events; agh never accepts for the user; an unanswered question is
declined at its timeout. One that the session's end leaves open becomes `orphaned`: its answer is sent as a
prompt after the next resume.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import orjson

from agh.core.acp.frames import Request
from agh.core.acp.question import Question, check_answer, read_question
from agh.core.events import marker, timestamp
from agh.core.named_tuple import NamedTuple
from agh.errors import AnswerInvalid
from agh.keeper import hooks
from agh.keeper.loop import Timer
from agh.keeper.session import Live
from agh.store.rows import insert

REQUEST_CANCELLED = -32800
_ACTIONS = {"accepted": "accept", "declined": "decline", "cancelled": "cancel", "orphaned": "cancel"}
_LONGEST_SUMMARY = 200


class PendingQuestion(NamedTuple):
    """A question that waits for an answer."""

    request_id: str
    turn_id: str
    question: Question
    rpc_id: int | str | None
    timer: Timer
    deadline: float


def ask_question(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: take the agent's `elicitation/create`, and let it wait for the user."""
    question, log, turn = read_question(params), live.log, live.turns.current
    request_id, turn_id = "ques-" + os.urandom(4).hex(), live.turns.current_id
    log.record(
        "question",
        turn_id=turn_id,
        raw=frame.raw,
        request_id=request_id,
        mode=question["mode"],
        message=question["message"],
        fields=question["fields"] or None,
        url=question["url"],
        tool_call_id=question["tool_call_id"],
    )
    row = {
        "request_id": request_id,
        "turn_id": turn_id,
        "tool_call_id": question["tool_call_id"],
        "status": "pending",
        "message": question["message"],
        "request": orjson.dumps(question).decode(),
        "created_at": timestamp(),
    }
    insert(log.db, "questions", row)
    limit = live.settings["questions.timeout"]
    timer = live.loop.later(limit, lambda: expire(live, request_id))
    deadline = time.monotonic() + limit
    live.agent.questions[request_id] = PendingQuestion(
        request_id, turn_id, question, frame.id, timer, deadline
    )
    if turn is not None and turn.cancelled:
        close(live, request_id, "cancelled", "cancel")
        return
    log.then(live.show_activity)
    if live.on_early_request is not None:
        log.then(partial(live.on_early_request, request_id))
    log.then(lambda: _run_hooks(live, request_id, question))


def close(
    live: Live, request_id: str, decision: str, decided_by: str, content: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Record how a pending question ends, then tell the agent."""
    pending = live.agent.questions.pop(request_id)
    pending.timer.cancel()
    with live.log.batch():
        record_decision(live, request_id, pending.turn_id, decision, decided_by, content)
        if decision == "orphaned":
            count_orphaned(live, +1)
        live.log.then(lambda: _reply(live, pending, decision, decided_by, content))
        live.log.then(live.show_activity)
    return {"request_id": request_id, "decision": decision, "answer": content}


def close_all(live: Live, decided_by: str, turn_id: str | None = None) -> None:
    """Close the pending questions, or only those of a turn if it is named.

    They are cancelled, or orphaned if it is the session that ends and not only the turn.
    """
    agent = live.agent.connection
    is_over = live.is_ending or agent is None or agent.process.over
    for pending in list(live.agent.questions.values()):
        if turn_id in (None, pending.turn_id):
            close(live, pending.request_id, "orphaned" if is_over else "cancelled", decided_by)


def withdraw(live: Live, rpc_id: Any) -> None:
    """Inside a batch: close a question that the agent takes back (`$/cancel_request`)."""
    for pending in list(live.agent.questions.values()):
        if pending.rpc_id is not None and pending.rpc_id == rpc_id and type(rpc_id) is type(pending.rpc_id):
            close(live, pending.request_id, "cancelled", "agent")


def complete(live: Live, params: dict[str, Any]) -> None:
    """Inside a batch: note that what a link led to is finished (`elicitation/complete`)."""
    elicitation_id = params.get("elicitationId")
    for pending in list(live.agent.questions.values()):
        if elicitation_id is not None and pending.question["elicitation_id"] == elicitation_id:
            close(live, pending.request_id, "cancelled", "completed")


def expire(live: Live, request_id: str) -> None:
    """Decline a question whose time is up, and say in the transcript that nobody has answered it."""
    pending = live.agent.questions.get(request_id)
    if pending is not None:
        words = " ".join(pending.question["message"].split())[:_LONGEST_SUMMARY]
        summary = f"declined, because nobody answered in time: {words}"
        with live.log.batch():
            close(live, request_id, "declined", "timeout")
            event = marker("question_timeout", summary, severity="warning", turn=pending.turn_id or None)
            live.log.add(event)
            live.log.then(lambda: hooks.notify(live, "timeout", request_id=request_id, text=summary))


def read_content(session_id: str, question: Question, request: dict[str, Any]) -> dict[str, Any]:
    """Return the content of an answer that accepts; raise AnswerInvalid if it does not fit the question."""
    content = request.get("content") or {}
    if not isinstance(content, dict):
        raise ValueError("the content of an answer must be an object")
    try:
        return check_answer(question["fields"], content)
    except ValueError as error:
        raise AnswerInvalid(str(error), session_id) from None


def record_decision(
    live: Live,
    request_id: str,
    turn_id: str,
    decision: str,
    decided_by: str,
    content: dict[str, Any] | None,
) -> None:
    """Inside a batch: record how a question ended, in its event and its row."""
    live.log.record(
        "question",
        turn_id=turn_id,
        request_id=request_id,
        decision=decision,
        decided_by=decided_by,
        answer=content,
    )
    live.log.db.execute(
        "UPDATE questions SET status = ?, decision = ?, answer = ?, decided_by = ?, decided_at = ? "
        "WHERE request_id = ?",
        [
            "orphaned" if decision == "orphaned" else "decided",
            decision,
            None if content is None else orjson.dumps(content).decode(),
            decided_by,
            timestamp(),
            request_id,
        ],
    )


def count_orphaned(live: Live, change: int) -> None:
    """Note in the metadata that there is one more orphaned question, or one less."""
    live.meta["orphaned_questions"] = max(0, (live.meta.get("orphaned_questions") or 0) + change)


def _reply(
    live: Live, pending: PendingQuestion, decision: str, decided_by: str, content: dict[str, Any] | None
) -> None:
    agent = live.agent.connection
    if agent is None:
        return
    if decided_by == "agent":
        agent.refuse(pending.rpc_id, REQUEST_CANCELLED, "cancelled")
        return
    result: dict[str, Any] = {"action": _ACTIONS[decision]}
    if decision == "accepted" and pending.question["mode"] == "form":
        result["content"] = content or {}
    agent.reply(pending.rpc_id, result)


def _run_hooks(live: Live, request_id: str, question: Question) -> None:
    fields = {"mode": question["mode"], "message": question["message"], "url": question["url"]}
    objection = hooks.fire(live, "question", request_id=request_id, **fields)
    if objection is not None:
        live.end("hook_stopped", objection)
