"""The end of a live session: cancel, close, EOF, TERM, KILL; then a single session_stopped."""

from __future__ import annotations

import os
import time
from typing import Any

from agh.core.events import draft_of, timestamp
from agh.core.status import phase
from agh.errors import AghError, Bug, HookStopped, Usage
from agh.keeper import checkpoint, crash, hooks
from agh.keeper.agent import terminals
from agh.keeper.agent.open_calls import close_left_open
from agh.keeper.agent.waiting import cancel_waiting
from agh.keeper.leash.leftovers import end_leftovers
from agh.keeper.process import explain_system
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.keeper.turns import turn
from agh.keeper.turns.cancel import ask_to_cancel
from agh.keeper.turns.failure import kind_of_start
from agh.store import checkpoint as store

CANCEL_GRACE, CLOSE_LIMIT, EOF_GRACE, TERM_GRACE = 5.0, 2.0, 2.0, 2.0


def stop(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """End the session, and answer once the end is on disk."""
    live.ending.waiting.append(answer)
    if not live.ready:  # the start fails without its agent, and that ends the session
        if live.agent.connection is not None:
            live.agent.connection.process.kill()
        return
    live.end(str(request.get("reason") or ("user_canceled" if live.turns.current else "completed")))


def end_session(live: Live) -> None:
    """Stop the agent and everything below it, then write how the session ended."""
    agent, end = live.agent.connected, live.ending
    if not agent.process.over:
        live.update(state="stopping")
        if live.turns.current is not None and end.failure is None:
            ask_to_cancel(live)
            live.loop.run_until(lambda: live.turns.current is None or agent.process.over, CANCEL_GRACE)
        if end.failure is None:
            _close_agent_session(live)
    end_agent(live, eof=EOF_GRACE if end.failure is None else 0.1, term=TERM_GRACE)
    hooks.fire(live, "session_stop", stop_reason=end.decision[0] if end.decision else None)
    hooks.await_all(live)
    if end.failure is not None:
        end.failure["crash_bundle_path"] = crash.write_bundle(live)
    write_end(live)


def end_agent(live: Live, *, eof: float, term: float) -> None:
    """End the agent and what runs in its terminals; return when nothing that it started is left."""
    process = live.agent.connected.process
    process.end(eof=eof, term=term)
    terminals_are_over = terminals.end_all(live)
    was_started = process.start_error is None
    if was_started and (process.exit is None or not terminals_are_over):  # a leash was killed, or is frozen
        end_leftovers(live.meta)


def write_end(live: Live) -> None:
    """Write the last event and the last metadata, then answer everyone who waits for the end."""
    reason, detail = live.ending.decision or ("error", None)
    paused = phase({"state": "stopped", "stop_reason": reason, "stop_detail": detail}) == "paused"
    with live.log.batch():
        cancel_waiting(live, decided_by="the session's end")
        if live.turns.current is not None:
            turn.abandon(live, live.turns.current, detail or f"the session stopped: {reason}")
        if live.turns.left_open:
            close_left_open(live)
        if not paused:
            live.log.record("session_stopped", **_stop_fields(live, reason, detail))
    if paused:
        elapsed, at = round(time.monotonic() - live.activity.started, 3), timestamp()
        # With the settings it started with: a file that is broken by now must not keep it from ending.
        point = checkpoint.derive(live.session, elapsed, live.settings)
        store.write(live.session, point | {"created_at": at})
        fields = _stop_fields(live, reason, detail) | {"checkpoint": at, "elapsed_seconds": elapsed}
        with live.log.batch():
            live.log.add(draft_of("session_paused", "", live.meta.get("acp_session_id"), at, fields))
    live.update(
        state="stopped",
        stop_reason=reason,
        stop_detail=detail,
        failure=live.ending.failure,
        attach=None,
        activity=None,
        keeper=None,
        launch=None,
    )
    for answer in live.ending.waiting:
        answer({"session_id": live.session_id, "stop_reason": reason, "pid": os.getpid()})


def _stop_fields(live: Live, reason: str, detail: str | None) -> dict[str, Any]:
    return {
        "stop_reason": reason,
        "text": detail,
        "failure": live.ending.failure,
        "spent": live.meta.get("spent"),
    }


def _close_agent_session(live: Live) -> None:
    """Let the agent close its own session, if it can."""
    agent = live.agent.connection
    caps = (live.meta.get("acp_caps") or {}).get("sessionCapabilities")
    if agent is None or not isinstance(caps, dict) or caps.get("close") is None:
        return
    answers: list[Any] = []
    agent.request("session/close", {"sessionId": live.meta["acp_session_id"]}, answers.append, CLOSE_LIMIT)
    live.loop.run_until(lambda: bool(answers))


def end_failed_start(live: Live, error: Exception) -> None:
    """Write why the start failed, stop the agent, and leave the session as it was before."""
    live.meta |= live.before_start  # type: ignore[typeddict-item]
    cause = error if isinstance(error, AghError) else explain_system(error)
    cause = cause or Bug(f"{type(error).__name__}: {error}")
    cause.redact(live.redactor.json)
    end, agent = live.ending, live.agent.connection
    if end.waiting:  # a stop came while it was starting
        end.decision = ("user_canceled", "stopped while it was starting")
        end.failure = None
    else:
        end.decision = ("hook_stopped" if isinstance(cause, HookStopped) else "error", cause.message)
        end.failure = {"kind": kind_of_start(cause), "summary": cause.message, "crash_bundle_path": None}
    if agent is not None:
        end_agent(live, eof=0.5, term=0.5)
        if end.failure and cause.exit != Usage.exit:  # a user's mistake is not a crash
            end.failure["crash_bundle_path"] = crash.write_bundle(live)
    write_end(live)
    live.log.writer.close()
