"""A keeper's life from the moment its agent is starting: the conversation, the socket, the end."""

from __future__ import annotations

import signal
import time
from typing import Any

from agh import config
from agh.core.events import marker, timestamp
from agh.core.redact import redactor
from agh.errors import AgentNeedsLogin, AghError, Bug, HookStopped, PlaceGone, StoreFailed, TimedOut, Usage
from agh.keeper import crash, hooks, options, restore, spending, stop, supervise, turns
from agh.keeper.agent import RpcError
from agh.keeper.control import Control
from agh.keeper.entry import Ready, log
from agh.keeper.launch import shake_hands
from agh.keeper.live import Live
from agh.keeper.verbs import describe, verbs
from agh.store.lock import Lock

FORGOTTEN = "the agent's own memory is gone"


def live_on(
    live: Live,
    held: Lock,
    ready: Ready,
    intent: dict[str, Any],
    remarks: list[str],
    trouble: AghError | None,
) -> None:
    """The rest of the story; with `trouble` its agent could not even be begun."""
    resuming = not intent.get("new")
    control = Control(live.loop, live.directory, verbs(live))
    try:
        if trouble is not None:
            raise trouble
        shake_hands(live)
        found = converse(live, intent)
        hello = open_session(live, found, resuming, remarks, meant_to_forget(live, intent))
        if ignored := config.untrusted_note(live.meta["workspace_path"]):
            log(ignored)
            hello["remarks"] = [*remarks, ignored]
        objection = hooks.fire(live, "session_resume" if resuming else "session_start")
        if objection is not None:
            raise HookStopped(objection)
    except Exception as error:
        failure = error if isinstance(error, AghError) else Bug(f"{type(error).__name__}: {error}")
        live.meta |= live.way_back  # type: ignore[typeddict-item]
        end_failed_start(live, failure)
        control.close()
        raise
    live.ready = True
    live.watch_turn = lambda turn: supervise.watch(live, turn)
    live.loop.on_signal((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), lambda: live.end("shutdown"))
    live.loop.later(live.settings["session.idle_after"], lambda: end_when_idle(live))
    turns.watch_time(live)
    live.loop.later(0, lambda: turns.dispatch_next(live))
    ready.succeeded(hello)
    try:
        live.loop.run_until(lambda: live.ending is not None)
        stop.end_session(live)
    except StoreFailed as error:
        log(f"the log cannot be written; the agent is stopped: {error.message}")
        if live.agent is not None:
            live.agent.process.end(eof=0, term=0)
        raise
    finally:
        control.close()
    live.writer.close()
    held.release()


def end_when_idle(live: Live) -> None:
    """An idle agent costs memory and nothing needs it: the next prompt revives the session."""
    left = live.settings["session.idle_after"] - (time.monotonic() - live.last_activity)
    if live.turn is None and left <= 0:
        live.end("idle")
    else:
        live.loop.later(max(1.0, left), lambda: end_when_idle(live))


def meant_to_forget(live: Live, intent: dict[str, Any]) -> str:
    """What was done on purpose that begins a new conversation with the agent; empty when nothing was."""
    before, now = live.way_back.get("agent_name"), live.meta["agent_name"]
    if before != now:
        lost = live.way_back.get("system_prompt") and not live.meta.get("system_prompt")
        return f"handed over from {before} to {now}" + (", which takes no system prompt" if lost else "")
    if intent.get("fresh"):
        return "begun afresh, as asked"
    origin = live.meta.get("forked_from")
    return f"forked from {origin['session_id']}" if origin and not live.meta.get("acp_session_ids") else ""


def converse(live: Live, intent: dict[str, Any]) -> restore.Outcome:
    """A conversation with the agent, new or restored."""
    if intent.get("new"):
        return restore.open_new(live)
    return restore.restore(
        live,
        require_context=bool(intent.get("require_context")),
        fork_of=intent.get("fork"),
        skip=tuple(intent.get("skip") or ()),
    )


def open_session(
    live: Live, found: restore.Outcome, resuming: bool, remarks: list[str], meant: str = ""
) -> dict[str, Any]:
    """Record the conversation that was opened; then the session is active. `meant`: why it is a new one."""
    before = live.way_back.get("acp_session_id")
    restored = found.restored
    known = live.meta.get("acp_session_ids") or []
    live.meta["acp_session_id"] = restored.agent_session
    live.meta["acp_session_ids"] = list(dict.fromkeys([*known, restored.agent_session]))
    live.meta["offers"] = options.offers_in(restored.answer) or live.meta.get("offers") or {}
    options.apply(live)
    used = {"strategy": found.strategy, "reason": found.reason, "at": timestamp()}
    if resuming:
        with live.batch():
            for remark in remarks:
                live.record("runtime_warning", text=remark)
            if restored.lost:
                summary = f"{meant or FORGOTTEN}; resumed by {found.strategy}"
                severity = "info" if meant else "warning"
                live.add(marker("context_reset", summary, severity=severity, diagnostic=found.reason))
            live.record(
                "session_resumed",
                strategy=found.strategy,
                reason=found.reason,
                acp_session_id=restored.agent_session,
                previous_acp_session_id=before,
            )
    live.meta["spent"] = spending.spent(live.directory, restored.agent_session)
    live.way_back = {}
    live.update(state="active", restore=used if resuming else None, activity=None)
    told = {
        "strategy": found.strategy,
        "reason": found.reason,
        "context_lost": restored.lost,
        "meant": meant if restored.lost else None,
        "remarks": remarks,
    }
    return {**describe(live), **told}


def end_failed_start(live: Live, error: AghError) -> None:
    """The start failed: say so in the log and the metadata, end the agent, keep the way back."""
    error.redact(redactor(live.environ).json)
    kind = "startup_failure"
    if isinstance(error, TimedOut):
        kind = "timeout"
    elif isinstance(error, PlaceGone):
        kind = "transport_failure"
    elif isinstance(error, AgentNeedsLogin):
        kind = "provider_auth_failure"
    elif isinstance(error, RpcError):
        kind = "handshake_failure"
    elif error.code in ("restore_failed", "context_lost"):
        kind = "load_session_failure"
    if live.farewells:  # somebody did not want to wait for it
        live.ending = ("user_canceled", "stopped while it was starting")
        live.failure = None
    else:
        live.ending = ("hook_stopped" if isinstance(error, HookStopped) else "error", error.message)
        live.failure = {"kind": kind, "summary": error.message, "crash_bundle_path": None}
    if live.agent is not None:
        live.agent.process.end(eof=0.5, term=0.5)
        if live.failure and error.exit != Usage.exit:  # what the user got wrong is no crash
            live.failure["crash_bundle_path"] = crash.write_bundle(live)
    stop.write_end(live)
    live.writer.close()
