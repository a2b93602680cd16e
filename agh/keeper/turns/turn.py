"""Prompts and turns: an input is queued, dispatched, answered. One turn at a time, in order.

Promises: an input is on disk before it is acknowledged; its user_message is on disk before the agent
gets it; the end of a turn, the end of its input and its usage are one transaction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from agh.core.events import marker
from agh.core.frames import Response, error_text, redacted_error
from agh.core.inject import with_history
from agh.core.prompt import check_size
from agh.core.updates import request_usage, token_usage
from agh.errors import AghError, NoTurn, QueueFull, SessionStopping, Usage
from agh.keeper import hooks
from agh.keeper.agent.permissions import cancel_all
from agh.keeper.server import Answer
from agh.keeper.session import Live, Turn, cause_of
from agh.keeper.turns import retry
from agh.keeper.turns import usage as spending
from agh.store import inputs, milestones
from agh.store.inputs import Input
from agh.store.schema import LANDMARK

MODES = ("queue", "interrupt", "steer")


def accept(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `prompt`: acknowledge an input once it is on disk, and dispatch it if nothing is going on."""
    if live.ending is not None:
        raise SessionStopping(live.session_id)
    prompt, mode, key = request["prompt"], str(request.get("mode") or "queue"), request.get("idempotency_key")
    if mode not in MODES:
        raise Usage(f"the mode {mode!r} is none of {', '.join(MODES)}")
    if not isinstance(prompt, list) or not isinstance(key, str | None):
        raise ValueError("a prompt is a list of content blocks, its key a text")
    check_size(prompt, live.settings["session.input_bytes"])
    known = inputs.by_key(live.db, key) if key else None
    if known is not None:
        ((first,),) = live.db.execute(
            f"SELECT min(sequence) FROM events WHERE {LANDMARK} AND turn_id = ?", [known.turn_id]
        ).fetchall()
        after = live.writer.last_sequence if first is None else first - 1
        answer(_receipt(live, known, after=after, repeated=True))
        return
    busy = live.turn is not None or live.settling
    if busy and mode != "interrupt" and inputs.count_queued(live.db) >= live.settings["session.queue_cap"]:
        raise QueueFull(live.session_id, live.settings["session.queue_cap"])
    after = live.writer.last_sequence
    with live.batch():
        if busy and mode == "interrupt":
            _drop_waiting(live)
        made = inputs.add(
            live.db,
            generation=inputs.generation(live.db) + (busy and mode == "interrupt"),
            mode=mode,
            prompt=prompt,
            turn_id="turn-" + os.urandom(6).hex(),
            key=key,
            retries=int(request.get("retries") or 0),
        )
        if not busy:
            _dispatch(live, made)
        else:
            live.add(marker(*_WAITING[mode], turn=made.turn_id))
        live.then(lambda: answer(_receipt(live, made, after=after)))
        if not busy:
            live.then(lambda: _send(live, made))
    if busy and mode == "interrupt":
        ask_to_cancel(live)


_WAITING = {
    "queue": ("prompt_queued", "the session is busy; the prompt waits"),
    "steer": ("prompt_steered", "the prompt comes in when the running tool has ended"),
    "interrupt": ("prompt_interrupted", "the running turn is cancelled for this prompt"),
}


def cancel(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `cancel`: ask the agent to end the turn; if it does not within the grace, end the agent."""
    turn = live.turn
    if turn is None or request.get("turn_id") not in (None, turn.turn_id):
        raise NoTurn(live.session_id)
    grace = request.get("grace")
    ask_to_cancel(live, None if grace is None else float(grace))
    answer({"turn_id": turn.turn_id})


def ask_to_cancel(live: Live, grace: float | None = None) -> None:
    """Ask the agent to end its turn; one that does not within the grace is ended with the session.

    Some agents answer a cancelled prompt only after their open permission request was answered.
    """
    turn, agent = live.turn, live.agent
    if turn is None or agent is None:
        return
    if grace is not None or not turn.cancelled:
        limit = live.settings["session.cancel_grace"] if grace is None else grace
        live.loop.later(limit, lambda: _overdue(live, turn, limit))
    if turn.cancelled:
        return
    turn.cancelled = True
    with live.batch():
        live.add(marker("prompt_cancel", "the turn was cancelled", turn=turn.turn_id))
        live.then(lambda: agent.notify("session/cancel", {"sessionId": live.meta["acp_session_id"]}))
        cancel_all(live, decided_by="cancel")
        if retry.give_up(turn):
            _close_turn(live, turn, "cancelled", stop_reason="cancelled")


def _overdue(live: Live, turn: Turn, grace: float) -> None:
    if live.turn is not turn:
        return
    if live.pause_after_turn is not None:
        live.end(*live.pause_after_turn)
    elif turn.timed_out is not None:
        detail, summary = turn.timed_out
        live.fail("timeout", "timeout", summary, detail=detail)
    else:
        summary = f"the agent did not end its turn within {grace:g} s of the cancel"
        live.fail("timeout", "cancellation", summary)


def watch_time(live: Live) -> None:
    """Look at the limit on time when it is due, also while nothing goes on."""
    limit = spending.limits_of(live.meta, live.record_of_agent, live.settings)["max_time"]
    if limit:
        live.loop.later(max(0.0, live.began + limit - time.monotonic()), lambda: _time_is_up(live))


def _time_is_up(live: Live) -> None:
    with live.batch():
        check_limits(live)


def steer_at_boundary(live: Live) -> None:
    """Inside a batch, after a tool has ended: a waiting steering prompt takes over from here."""
    if live.turn is not None and inputs.is_steering(live.db):
        live.then(lambda: ask_to_cancel(live))


def check_limits(live: Live) -> None:
    """Inside a batch: once a limit is reached the turn is ended, and then the session pauses."""
    found = spending.reached(live)
    if found is None or live.pause_after_turn is not None:
        return
    live.pause_after_turn = found
    if live.turn is None:
        live.then(lambda: live.end(*found))
    else:
        live.then(lambda: ask_to_cancel(live))


def dispatch_next(live: Live) -> None:
    live.settling = False
    if live.turn is None and live.ending is None and live.agent and not live.agent.process.over:
        waiting = inputs.next_queued(live.db)
        if waiting is not None:
            with live.batch():
                live.add(marker("prompt_accepted", "the queued prompt is sent", turn=waiting.turn_id))
                _dispatch(live, waiting)
                live.then(lambda: _send(live, waiting))


def answered(live: Live, turn: Turn, result: Response | AghError, send: Callable[[], None]) -> None:
    """The agent answered the prompt, or never will. Called inside the batch that holds its last updates.

    `send` sends the prompt once more.
    """
    if live.turn is not turn:
        return
    if isinstance(result, AghError):
        abandon(live, turn, live.failure["summary"] if live.failure else result.message)
    elif result.error is not None:
        if retry.plan(live, turn, result, send):
            return
        assert live.agent is not None
        words = error_text(redacted_error(result.error, live.agent.redactor))
        _close_turn(live, turn, "failed", error=words, stop_reason="error", raw=result.raw)
    else:
        given = result.result if isinstance(result.result, dict) else {}
        usage = token_usage(given.get("usage")) or request_usage(given) or turn.usage or None
        reason = str(given.get("stopReason") or "end_turn")
        if reason == "end_turn" and not turn.said_something:
            live.record(
                "runtime_warning", turn_id=turn.turn_id, text="the agent ended its turn without a word"
            )
        if usage is not None:
            spending.store_usage(live, turn.turn_id, usage)
        _close_turn(live, turn, "sent", stop_reason=reason, usage=usage, raw=result.raw)


def abandon(live: Live, turn: Turn, why: str) -> None:
    """Inside a batch: close a turn that the agent will not answer any more."""
    _close_turn(live, turn, "failed", error=why, stop_reason="interrupted")


def _dispatch(live: Live, made: Input) -> None:
    """Inside a batch: the prompt's turn begins. It is sent when that is on disk, and seen in the metadata."""
    live.turn = Turn(made.turn_id, made.id, after=live.writer.last_sequence, retries=made.retries)
    live.last_turn_id, live.replaying = made.turn_id, False
    live.active("prompt")
    inputs.set_status(live.db, made.id, "dispatching")
    others = [block for block in made.prompt if block.get("type") != "text"]
    live.record("user_message", turn_id=made.turn_id, text=_text(made), attachments=others or None)
    live.then(live.show_activity)


def _text(made: Input) -> str:
    return "\n".join(block["text"] for block in made.prompt if isinstance(block.get("text"), str))


def _send(live: Live, made: Input) -> None:
    """Send the prompt; a turn whose prompt cannot be sent ends as failed."""
    turn = live.turn
    assert turn is not None
    try:
        _send_prompt(live, turn, made)
    except Exception as error:
        live.survive(error)
        if live.turn is turn:
            with live.batch():
                _close_failed(live, turn, error)


def _send_prompt(live: Live, turn: Turn, made: Input) -> None:
    agent = live.agent
    assert agent is not None
    prompt = made.prompt if live.history is None else with_history(live.history, made.prompt)
    objection = hooks.fire(live, "prompt", turn_id=turn.turn_id, text=_text(made))
    if objection is not None:
        live.end("hook_stopped", objection)
    if live.ending is not None or turn.cancelled:
        with live.batch():
            why = {"error": objection} if objection else {}
            _close_turn(live, turn, "failed" if objection else "cancelled", stop_reason="cancelled", **why)
        return

    def then(result: Response | AghError) -> None:
        with live.batch():
            try:
                with live.step():
                    answered(live, turn, result, send)
            except Exception as error:
                live.survive(error)
                _close_failed(live, turn, error)

    def send() -> None:
        agent.request("session/prompt", {"sessionId": live.meta["acp_session_id"], "prompt": prompt}, then)

    live.watch_turn(turn)
    send()


def _close_failed(live: Live, turn: Turn, error: Exception) -> None:
    """Inside a batch: close a turn that agh itself could not go on with."""
    live.turn = turn
    why = f"the turn could not be handled: {cause_of(error)}"
    _close_turn(live, turn, "failed", error=why, stop_reason="error")


def _close_turn(live: Live, turn: Turn, status: str, **fields: Any) -> None:
    cancel_all(live, decided_by="turn_end", turn_id=turn.turn_id)
    live.turn, live.health, live.settling = None, None, True
    if turn.warned and not turn.timed_out:
        live.add(marker("session_recovered", "the silent turn has ended"))
    if live.history is not None and status == "sent":
        live.history, live.meta["inject_history"] = None, False
    live.record("error" if status == "failed" else "done", turn_id=turn.turn_id, **fields)
    inputs.set_status(live.db, turn.input_id, status, fields.get("error"))
    live.meta["turns"] = live.meta.get("turns", 0) + 1
    check_limits(live)
    live.active("turn_end")
    live.then(live.show_activity)
    live.then(lambda: milestones.mark(live.writer, turn.after))
    live.then(lambda: _after_turn(live, turn, fields.get("stop_reason")))
    live.then(lambda: dispatch_next(live))


def _after_turn(live: Live, turn: Turn, stop_reason: Any) -> None:
    if live.pause_after_turn is not None:
        live.end(*live.pause_after_turn)
    objection = hooks.fire(live, "turn_end", turn_id=turn.turn_id, stop_reason=stop_reason)
    if objection is not None:
        live.end("hook_stopped", objection)


def _drop_waiting(live: Live) -> None:
    """Inside a batch: what was queued before an interrupt is stale."""
    for dropped in inputs.queued(live.db):
        inputs.set_status(live.db, dropped.id, "cancelled", "dropped by an interrupt")
        summary = "the queued prompt is dropped for one that interrupts"
        live.add(marker("prompt_dropped", summary, turn=dropped.turn_id))


def _receipt(live: Live, made: Input, *, after: int, repeated: bool = False) -> dict[str, Any]:
    running = live.turn is not None and live.turn.turn_id == made.turn_id
    return {
        "input_id": made.id,
        "turn_id": made.turn_id,
        "status": "dispatching" if running else made.status,
        "after": after,
        "repeated": repeated,
    }
