"""The end of a live session: cancel, close, EOF, TERM, KILL; then the one session_stopped."""

from __future__ import annotations

import os
import time
from typing import Any

from agh.core.status import phase
from agh.keeper import checkpoint, crash, hooks
from agh.keeper.agent import permissions, terminals
from agh.keeper.leash.leftovers import end_leftovers
from agh.keeper.server import Answer
from agh.keeper.session import Live
from agh.keeper.turns import turn
from agh.store import checkpoint as store

CANCEL_GRACE, CLOSE_LIMIT, EOF_GRACE, TERM_GRACE = 5.0, 2.0, 2.0, 2.0


def stop(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """The verb `stop`; answered when the end is on disk."""
    live.farewells.append(answer)
    if not live.ready:  # it will fail now, and that is its end
        if live.agent is not None:
            live.agent.process.kill()
        return
    live.end(str(request.get("reason") or ("user_canceled" if live.turn else "completed")))


def end_session(live: Live) -> None:
    """End the agent and everything below it, then write how it ended."""
    agent = live.agent
    assert agent is not None
    if not agent.process.over:
        live.update(state="stopping")
        if live.turn is not None and live.failure is None:
            turn.ask_to_cancel(live)
            live.loop.run_until(lambda: live.turn is None or agent.process.over, CANCEL_GRACE)
        if live.failure is None:
            _close_session(live)
        agent.process.end(eof=EOF_GRACE if live.failure is None else 0.1, term=TERM_GRACE)
    terminals.end_all(live)
    hooks.fire(live, "session_stop", stop_reason=live.ending[0] if live.ending else None)
    hooks.await_all(live)
    if agent.process.exit is None:  # the leash was killed, so it could not end what was below it
        end_leftovers(live.meta)
    if live.failure is not None:
        live.failure["crash_bundle_path"] = crash.write_bundle(live)
    write_end(live)


def write_end(live: Live) -> None:
    """The last event and the last metadata; whoever asked for the end is told."""
    reason, detail = live.ending or ("error", None)
    paused = phase({"state": "stopped", "stop_reason": reason, "stop_detail": detail}) == "paused"
    with live.batch():
        permissions.cancel_all(live, decided_by="the session's end")
        if live.turn is not None:
            turn.abandon(live, live.turn, detail or f"the session stopped: {reason}")
        if not paused:
            live.record("session_stopped", **_how(live, reason, detail))
    if paused:
        elapsed = round(time.monotonic() - live.began, 3)
        made = checkpoint.derive(live.directory, elapsed)
        store.write(live.directory, made)
        with live.batch():
            told = {"checkpoint": made["created_at"], "elapsed_seconds": elapsed}
            live.record("session_paused", **_how(live, reason, detail), **told)
    live.update(
        state="stopped",
        stop_reason=reason,
        stop_detail=detail,
        failure=live.failure,
        attach=None,
        activity=None,
        keeper=None,
        launch=None,
    )
    for tell in live.farewells:
        tell({"session_id": live.session_id, "stop_reason": reason, "pid": os.getpid()})


def _how(live: Live, reason: str, detail: str | None) -> dict[str, Any]:
    return {
        "stop_reason": reason,
        "text": detail,
        "failure": live.failure,
        "spent": live.meta.get("spent"),
    }


def _close_session(live: Live) -> None:
    """Let the agent put its own session away, where it knows how to."""
    agent = live.agent
    caps = (live.meta.get("acp_caps") or {}).get("sessionCapabilities")
    if agent is None or not isinstance(caps, dict) or caps.get("close") is None:
        return
    answers: list[Any] = []
    agent.request("session/close", {"sessionId": live.meta["acp_session_id"]}, answers.append, CLOSE_LIMIT)
    live.loop.run_until(lambda: bool(answers))
