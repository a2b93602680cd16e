"""Prompts and turns: an input is queued, dispatched, answered. One turn at a time, in order.

Promises: an input is on disk before it is acknowledged; its user_message is on disk before the agent
gets it; the end of a turn, the end of its input and its usage are one transaction.
"""

from __future__ import annotations

import os
from typing import Any

import orjson

from agh.core.events import marker, timestamp
from agh.core.frames import Response
from agh.core.updates import token_usage
from agh.errors import AghError, InputTooLarge, NoTurn, QueueFull
from agh.keeper.control import Answer
from agh.keeper.live import Live, Turn
from agh.store import inputs
from agh.store.inputs import Input


def accept(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `prompt`: acknowledge an input once it is on disk, and dispatch it if nothing is going on."""
    prompt = request["prompt"]
    size, cap = (
        sum(len(str(block.get("text", "")).encode()) for block in prompt),
        live.settings["session.input_bytes"],
    )
    if size > cap:
        raise InputTooLarge(size, cap)
    key = request.get("idempotency_key")
    known = inputs.by_key(live.db, key) if key else None
    if known is not None:
        answer(_receipt(live, known, after=0, repeated=True))
        return
    if live.turn is not None and inputs.count_queued(live.db) >= live.settings["session.queue_cap"]:
        raise QueueFull(live.session_id, live.settings["session.queue_cap"])
    after = live.writer.last_sequence
    with live.batch():
        made = inputs.add(
            live.db, mode=str(request.get("mode") or "queue"), prompt=prompt, turn_id=_new_turn_id(), key=key
        )
        live.then(lambda: answer(_receipt(live, made, after=after)))
        if live.turn is None:
            _dispatch(live, made)
        else:
            live.add(marker("prompt_queued", "the session is busy; the prompt waits", turn=made.turn_id))


def cancel(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `cancel`: ask the agent to end the turn; if it does not within the grace, end the agent."""
    if live.turn is None:
        raise NoTurn(live.session_id)
    turn = live.turn
    ask_to_cancel(live)
    grace = float(request.get("grace") or live.settings["session.cancel_grace"])

    def overdue() -> None:
        if live.turn is turn:
            live.fail(
                "timeout", "cancellation", f"the agent did not end its turn within {grace:g} s of the cancel"
            )

    live.loop.later(grace, overdue)
    answer({"turn_id": turn.turn_id})


def ask_to_cancel(live: Live) -> None:
    """Some agents answer a cancelled prompt only after their open permission request was answered."""
    from agh.keeper.permissions import cancel_all

    turn, agent = live.turn, live.agent
    if turn is None or agent is None or turn.cancelled:
        return
    turn.cancelled = True
    with live.batch():
        live.add(marker("prompt_cancel", "the turn was cancelled", turn=turn.turn_id))
        cancel_all(live, decided_by="cancel")
        live.then(lambda: agent.notify("session/cancel", {"sessionId": live.meta["acp_session_id"]}))


def dispatch_next(live: Live) -> None:
    if live.turn is None and live.ending is None:
        waiting = inputs.next_queued(live.db)
        if waiting is not None:
            with live.batch():
                live.add(marker("prompt_accepted", "the queued prompt is sent", turn=waiting.turn_id))
                _dispatch(live, waiting)


def answered(live: Live, turn: Turn, result: Response | AghError) -> None:
    """The agent answered the prompt, or never will. Called inside the batch that holds its last updates."""
    if live.turn is not turn:
        return
    if isinstance(result, AghError):
        _close_turn(live, turn, "failed", error=result.message, stop_reason="interrupted")
    elif result.error is not None:
        message = str(result.error.get("message"))
        details = result.error.get("data")
        text = message if details is None else f"{message}: {orjson.dumps(details).decode()}"
        _close_turn(live, turn, "failed", error=text, stop_reason="error", raw=result.raw)
    else:
        given = result.result if isinstance(result.result, dict) else {}
        usage = token_usage(given.get("usage"))
        reason = str(given.get("stopReason") or "end_turn")
        if reason == "end_turn" and not turn.said_something:
            live.record(
                "runtime_warning", turn_id=turn.turn_id, text="the agent ended its turn without a word"
            )
        _close_turn(live, turn, "sent", stop_reason=reason, usage=usage, raw=result.raw)
        if usage is not None:
            _store_usage(live, turn.turn_id, usage)


def abandon(live: Live, turn: Turn, why: str) -> None:
    """Inside a batch: close a turn that the agent will not answer any more."""
    _close_turn(live, turn, "failed", error=why, stop_reason="interrupted")


def _dispatch(live: Live, made: Input) -> None:
    """Inside a batch: record the prompt, then send it."""
    agent = live.agent
    assert agent is not None
    turn = Turn(made.turn_id, made.id)
    live.turn, live.last_turn_id = turn, turn.turn_id
    inputs.set_status(live.db, made.id, "dispatching")
    text = "\n".join(block["text"] for block in made.prompt if isinstance(block.get("text"), str))
    others = [block for block in made.prompt if block.get("type") != "text"]
    live.record("user_message", turn_id=turn.turn_id, text=text, attachments=others or None)
    prompt = made.prompt
    if live.history is not None:
        from agh.core.inject import with_history

        prompt = with_history(live.history, prompt)
    params = {"sessionId": live.meta["acp_session_id"], "prompt": prompt}
    live.then(lambda: _send(live, turn, params))
    live.then(live.show_activity)


def _send(live: Live, turn: Turn, params: dict[str, Any]) -> None:
    agent = live.agent
    assert agent is not None

    def then(result: Response | AghError) -> None:
        with live.batch():
            answered(live, turn, result)

    agent.request("session/prompt", params, then)


def _close_turn(live: Live, turn: Turn, status: str, **fields: Any) -> None:
    live.turn = None
    if live.history is not None and status == "sent":
        live.history, live.meta["inject_history"] = None, False
    live.record("error" if status == "failed" else "done", turn_id=turn.turn_id, **fields)
    inputs.set_status(live.db, turn.input_id, status, fields.get("error"))
    live.meta["turns"] = live.meta.get("turns", 0) + 1
    live.then(live.show_activity)
    live.then(lambda: dispatch_next(live))


def _store_usage(live: Live, turn_id: str, usage: dict[str, Any]) -> None:
    row = {"turn_id": turn_id, **usage, "timestamp": timestamp()}
    updates = ", ".join(f"{name} = excluded.{name}" for name in row)
    live.db.execute(
        f"INSERT INTO token_usage ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) "
        f"ON CONFLICT (turn_id) DO UPDATE SET {updates}",
        list(row.values()),
    )


def _receipt(live: Live, made: Input, *, after: int, repeated: bool = False) -> dict[str, Any]:
    running = live.turn is not None and live.turn.turn_id == made.turn_id
    return {
        "input_id": made.id,
        "turn_id": made.turn_id,
        "status": "dispatching" if running else made.status,
        "after": after,
        "repeated": repeated,
    }


def _new_turn_id() -> str:
    return "turn-" + os.urandom(6).hex()
