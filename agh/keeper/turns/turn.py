"""Turns: an input is sent to the agent and answered. At most one turn at a time, in order.

Promises: a turn's user_message is on disk before the agent gets the prompt; the end of a turn, the end of its
input and its usage are a single transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from agh.core.acp.chunks import ChunkParser
from agh.core.acp.frames import Response, redacted_error
from agh.core.acp.reasons import error_text, is_about_mcp, is_auth_failure, says_auth
from agh.core.acp.updates import known_usage, request_usage, token_usage
from agh.core.events import marker, timestamp
from agh.core.inject import with_history
from agh.core.parking import NOT_PARKED
from agh.core.prompt import last_line, title_of
from agh.errors import AghError
from agh.keeper import hooks
from agh.keeper.agent.open_calls import close_calls, leave_open
from agh.keeper.agent.user_messages import end_message
from agh.keeper.agent.waiting import cancel_waiting
from agh.keeper.session import Live, Turn, cause_of
from agh.keeper.turns import parking, retry, supervise
from agh.keeper.turns import usage as spending
from agh.keeper.turns.failure import describe_failure, kind_of_end, kind_of_error
from agh.keeper.turns.usage import check_limits
from agh.store import inputs, milestones
from agh.store.inputs import Input

ERROR_WORDS = 500  # characters


def start(live: Live, input: Input) -> None:
    """Inside a batch: start the input's turn. It is sent once that is on disk and in the metadata."""
    turns, log = live.turns, live.log
    if live.agent.user_message is not None:
        end_message(live)
    turns.current = Turn(
        input.turn_id, input.id, after=log.last_sequence, retries=input.retries, park=bool(input.park)
    )
    turns.last_id, live.agent.replaying = input.turn_id, False
    live.activity.note("prompt")
    live.meta["unanswered_permissions"] = 0
    inputs.set_status(log.db, input.id, "dispatching")
    if not (live.meta.get("name") or live.meta.get("title")):
        live.meta["title"] = title_of(_text(input), live.agent.connected.redactor)
    others = [block for block in input.prompt if block.get("type") != "text"]
    log.record("user_message", turn_id=input.turn_id, text=_text(input), attachments=others or None)
    log.then(live.show_activity)


def send(live: Live, input: Input) -> None:
    """Send the prompt of the turn that was started; if it cannot be sent, the turn fails."""
    turn = live.turns.current
    assert turn is not None
    try:
        _send(live, turn, input)
    except Exception as error:
        live.survive(error)
        if live.turns.current is turn:
            with live.log.batch():
                _close_failed(live, turn, error)


def start_next(live: Live) -> None:
    """Start the turn of the next queued input, if the session can take it."""
    live.turns.finishing = False
    agent = live.agent.connection
    if live.turns.current is None and not live.is_ending and agent and not agent.process.over:
        if live.meta.get("resumes_at") and parking.holds(live, lambda: start_next(live)):
            return
        queued = inputs.next_queued(live.log.db)
        if queued is not None:
            with live.log.batch():
                live.log.add(marker("prompt_accepted", "the queued prompt is sent", turn=queued.turn_id))
                if live.meta.get("limited"):
                    queued = parking.what_to_send(live, queued)
                start(live, queued)
                live.log.then(partial(send, live, queued))


def abandon(live: Live, turn: Turn, why: str, kind: str | None = None) -> None:
    """Inside a batch: close a turn that the agent will not answer any more."""
    _close(live, turn, "failed", error=why, stop_reason="interrupted", failure_kind=kind)


def _send(live: Live, turn: Turn, input: Input) -> None:
    agent, history = live.agent.connected, live.turns.history
    prompt = input.prompt if history is None else with_history(history, input.prompt)
    objection = hooks.fire(live, "prompt", turn_id=turn.turn_id, text=_text(input))
    if objection is not None:
        live.end("hook_stopped", objection)
    if live.is_ending or turn.cancelled:
        with live.log.batch():
            why = {"error": objection} if objection else {}
            _close(live, turn, "failed" if objection else "cancelled", stop_reason="cancelled", **why)
        return

    def take_answer(result: Response | AghError) -> None:
        with live.log.batch():
            try:
                with live.step():
                    _take_answer(live, turn, result, request)
            except Exception as error:
                live.survive(error)
                _close_failed(live, turn, error)

    def request() -> None:
        texts = [block for block in prompt if block.get("type") == "text"]
        live.agent.sent = [*live.agent.sent[-1:], texts]
        params = {"sessionId": live.meta["acp_session_id"], "prompt": prompt}
        agent.request("session/prompt", params, take_answer)

    supervise.watch(live, turn)
    agent.parse_with(ChunkParser().parse)
    request()


def _take_answer(live: Live, turn: Turn, result: Response | AghError, send: Callable[[], None]) -> None:
    """Inside the batch with the turn's last updates: close the turn, or plan to `send` it again."""
    if live.turns.current is not turn:
        return
    if isinstance(result, AghError):
        failure = live.ending.failure
        abandon(live, turn, failure["summary"] if failure else result.message, kind_of_end(live, result))
    elif turn.limit is not None:
        _close_limited(live, turn, *turn.limit, result.raw)
    elif result.error is not None:
        if retry.plan_retry(live, turn, result, send, lambda: _close_cancelled(live, turn)):
            return
        agent = live.agent.connected
        error = agent.with_last_words(error_text(redacted_error(result.error, agent.redactor)))
        if reset := parking.find_reset(result.error):
            _close_limited(live, turn, reset, error, result.raw)
            return
        kind = _note_refused_login(live, error) if is_auth_failure(result.error) else None
        kind = kind or kind_of_error(result.error)
        _close(live, turn, "failed", error=error, stop_reason="error", failure_kind=kind, raw=result.raw)
    else:
        answer = result.result if isinstance(result.result, dict) else {}
        usage = token_usage(answer.get("usage")) or request_usage(answer) or turn.usage or None
        reason = str(answer.get("stopReason") or "end_turn")
        if reason == "end_turn" and not turn.answered:
            text = "the agent ended its turn without answering"
            live.log.record("runtime_warning", turn_id=turn.turn_id, text=text)
        if reason == "refusal":
            text = "the agent refused this prompt and may not remember it"
            live.log.record("runtime_warning", turn_id=turn.turn_id, text=text)
        if usage is not None:
            spending.store_usage(live.log.db, turn.turn_id, usage)
        if turn.failed_by_agent and reason == "end_turn":
            words = live.agent.connected.redactor.end(turn.last_words.strip(), ERROR_WORDS)
            error = f"the agent reports a system error{words and ': '}{words}"
            if reset := parking.find_reset_in_words(turn):
                _close_limited(live, turn, reset, error, result.raw)
                return
            kind = _note_refused_login(live, words) if says_auth(words) else None
            _close(live, turn, "failed", error=error, stop_reason="error", failure_kind=kind, raw=result.raw)
        elif "limit" in turn.last_words and (reset := parking.find_reset_in_notice(turn, reason)):
            words = live.agent.connected.redactor.text(turn.last_words.strip())
            _close_limited(live, turn, reset, words, result.raw)
        else:
            live.activity.needs_login = False
            known = known_usage(usage) if usage else None
            _close(live, turn, "sent", stop_reason=reason, usage=known or None, raw=result.raw)


def _note_refused_login(live: Live, error: str) -> str | None:
    """Inside a batch: note that a login or a key was refused, and return the kind of failure.

    Return None if it is the login of an MCP server.
    """
    if is_about_mcp(error):
        summary = f"an MCP server needs a login: {error[:300]}"
        live.log.add(marker("mcp_auth_required", summary, severity="warning"))
        return None
    live.activity.needs_login = True
    return "provider_auth_failure"


def _close_limited(live: Live, turn: Turn, reset: datetime, error: str, raw: Any) -> None:
    """Inside a batch: close a turn that met a usage limit; its prompt waits for the reset, or has failed."""
    why_not = parking.objection(live, turn, reset)
    if why_not is None:
        fields = parking.park(live, turn, reset)
        kind = "usage_limit"
        _close(
            live, turn, "limited", error=error, stop_reason="limited", failure_kind=kind, raw=raw, **fields
        )
        parking.note(live, turn)
        return
    error = f"{error}{NOT_PARKED}{why_not}" if why_not else error
    fields = {"failure_kind": "usage_limit", "resets_at": timestamp(reset)}
    _close(live, turn, "failed", error=error, stop_reason="error", raw=raw, **fields)


def _close_cancelled(live: Live, turn: Turn) -> None:
    """Inside a batch: close a turn that was cancelled while nothing of it was with the agent."""
    turn.retry = None
    _close(live, turn, "cancelled", stop_reason="cancelled")


def _close_failed(live: Live, turn: Turn, error: Exception) -> None:
    """Inside a batch: close a turn that agh itself could not handle."""
    live.turns.current = turn
    why = f"agh could not handle the turn: {cause_of(error)}"
    _close(live, turn, "failed", error=why, stop_reason="error")


def _close(live: Live, turn: Turn, status: str, **fields: Any) -> None:
    """Inside a batch: record the end of a turn; then run the hooks and start the next one."""
    turns, log = live.turns, live.log
    cancel_waiting(live, decided_by="turn_end", turn_id=turn.turn_id)
    if live.agent.user_message is not None:
        end_message(live)
    if turn.tools:
        ended_well = status == "sent" and fields.get("stop_reason") != "cancelled"
        (leave_open if ended_well else close_calls)(live, turn)
    turns.current, turns.finishing, live.activity.health = None, True, None
    if status != "sent" or fields.get("stop_reason") == "cancelled":
        fields = describe_failure(live, turn, status, fields)
    if turn.warned and not live.is_ending:
        log.add(marker("session_recovered", "the silent turn has ended"))
    if turns.history is not None and status == "sent":
        turns.history, live.meta["inject_history"] = None, False
    log.record("error" if status in ("failed", "limited") else "done", turn_id=turn.turn_id, **fields)
    if status == "limited":
        inputs.queue_again(log.db, turn.input_id, fields["next_turn_id"], fields["error"])
    else:
        inputs.set_status(log.db, turn.input_id, status, fields.get("error"))
        live.meta["turns"] = live.meta.get("turns", 0) + 1
        if live.meta.get("limited"):
            parking.forget(live, turn)
    check_limits(live)
    live.activity.note("turn_end")
    log.then(lambda: _note_last_message(live, turn))
    log.then(live.show_activity)
    log.then(lambda: _finish(live, turn, fields))
    log.then(lambda: start_next(live))
    log.then(lambda: milestones.mark(log.writer, turn.after))  # last: the next prompt does not wait for it


def _note_last_message(live: Live, turn: Turn) -> None:
    """Let a list show how the agent's answer ended."""
    if turn.last_words:
        agent = live.agent.connection
        live.meta["last_message"] = last_line(turn.last_words, agent.redactor if agent else live.redactor)


def _finish(live: Live, turn: Turn, fields: dict[str, Any]) -> None:
    """Pause the session if a limit was reached, and run the hooks of the turn's end."""
    if live.turns.pause_after is not None:
        live.end(*live.turns.pause_after)
    end = {"stop_reason": fields.get("stop_reason"), "error": fields.get("error")}
    duration = round(time.monotonic() - turn.started, 3)
    objection = hooks.fire(live, "turn_end", turn_id=turn.turn_id, duration_seconds=duration, **end)
    if objection is not None:
        live.end("hook_stopped", objection)


def _text(input: Input) -> str:
    return "\n".join(block["text"] for block in input.prompt if isinstance(block.get("text"), str))
