"""The keeper: the process that holds one live session. See process.py for what it starts with.

`keep` is its whole life, from top to bottom: load the session, start the agent, restore the conversation,
report that it is ready (or why not), serve, and write the end. It is the only writer of the session's log. If
it is killed at any point, it leaves a log that the next keeper can continue.

Only what starts the agent is imported at the top. The functions that run later import what they use, and
`preload` loads all of that while the agent starts.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from agh.adapters.opening import directories
from agh.adapters.registry import offered_agents
from agh.config import load as load_settings
from agh.config import untrusted_note
from agh.core.events import marker, timestamp
from agh.errors import HookStopped, StartStopped, StoreFailed
from agh.keeper.agent.launch import agent_record, read_env_file
from agh.keeper.agent.start import initialize_agent, start_agent
from agh.keeper.process import Ready, log, preload, run
from agh.keeper.protocol import StartRequest
from agh.keeper.session import Live
from agh.keeper.turns import usage
from agh.store import meta
from agh.store.lock import Lock
from agh.store.writer import Writer

if TYPE_CHECKING:
    from agh.keeper.agent.restore import Outcome
    from agh.keeper.server import Control

MEMORY_LOST = "the agent's own memory is gone"
RESTORED_IF_START_FAILS = (
    "agent_name",
    "command",
    "acp_session_id",
    "acp_session_ids",
    "inject_history",
    "limits",
    "mode",
    "model",
    "offers",
    "current",
    "options",
    "system_prompt",
)


def main() -> NoReturn:
    """Run this process as a keeper; see leash/ahead.py for what comes before."""
    run(keep, prepare=offered_agents)  # that takes 6 ms, and each session needs it


def keep(lock: Lock, ready: Ready, request: StartRequest) -> None:
    """Keep a session from its start to its end."""
    live = load_session(lock, request)
    live.on_early_request = ready.asked
    live.on_queued = ready.queued
    with ExitStack() as closing:
        try:
            start_agent(live)
            preload()  # while the agent starts
            closing.callback(open_control(live).close)
            hello = start_session(live, request)
        except Exception as error:
            from agh.keeper.ending import end_failed_start

            end_failed_start(live, error)
            if live.ending.waiting:
                raise StartStopped(live.session.id) from error
            raise
        serve(live, ready, hello)
    live.log.writer.close()
    lock.release()


def open_control(live: Live) -> Control:
    """Open the socket on which commands reach the session."""
    from agh.keeper.server import Control
    from agh.keeper.verbs import verbs

    return Control(live.loop, live.session, verbs(live))


def serve(live: Live, ready: Ready, hello: dict[str, Any]) -> None:
    """Report that the session is live, serve until it is to end, and write its end."""
    from agh.keeper import ending
    from agh.keeper.turns import turn

    live.ready, live.on_early_request, live.on_queued = True, None, None
    watch_signals_and_time(live)
    live.loop.later(0, lambda: turn.start_next(live))
    ready.succeeded(hello)
    try:
        live.loop.run_until(lambda: live.is_ending)
        ending.end_session(live)
    except StoreFailed as error:
        log(f"the log cannot be written; the agent is stopped: {error.message}")
        try:
            if live.agent.connection is not None:
                ending.end_agent(live, eof=0, term=0)
        finally:
            note_store_failure(live, error)
        raise


def note_store_failure(live: Live, error: StoreFailed) -> None:
    """Leave a word for the command that repairs the session, if anything can be written."""
    live.meta["failure"] = {"kind": "store_failure", "summary": error.message, "crash_bundle_path": None}
    with suppress(OSError):
        meta.write(live.session, live.meta)


def load_session(lock: Lock, request: StartRequest) -> Live:
    """Read the session and its settings, and apply what the request changes about it."""
    metadata = meta.read(lock.session)
    last_end = {key: metadata.get(key) for key in ("state", "stop_reason", "stop_detail")}
    before_start = {key: metadata.get(key) for key in RESTORED_IF_START_FAILS}
    if agent_name := request.get("agent"):
        hand_over(metadata, agent_name)
    record = agent_record(metadata["agent_name"], metadata.get("command"), metadata["workspace_path"])
    settings = load_settings(metadata["workspace_path"])
    read_env_file(settings)  # refused here, nothing has changed
    metadata["limits"] = {**(metadata.get("limits") or {}), **(request.get("limits") or {})}
    metadata["spent"] = usage.read_spent(lock.session, metadata.get("acp_session_id"))
    usage.refuse_over_limit(lock.session, metadata, record, settings)
    live = Live(lock.session, metadata, Writer(lock, record.name), settings, record)
    live.turns.bytes = usage.log_bytes(lock.session)
    live.agent.mcp_servers = request.get("mcp_servers") or []
    live.before_start, live.last_end = before_start, last_end
    if request.get("fresh"):
        live.meta["acp_session_id"] = None
    return live


def hand_over(metadata: meta.Meta, agent_name: str) -> None:
    """Hand the session over to another agent, which has no memory of it and its own models and modes."""
    if agent_name != metadata["agent_name"]:
        metadata["agent_name"], metadata["command"], metadata["acp_session_id"] = agent_name, None, None
        metadata["model"], metadata["mode"], metadata["options"], metadata["offers"] = None, None, {}, {}
        metadata["current"] = metadata["commands"] = None


def start_session(live: Live, request: StartRequest) -> dict[str, Any]:
    """Start the conversation with the agent, and return the hello for the command that asked for it."""
    from agh.keeper import hooks

    resuming = not request.get("new")
    remarks = request.get("remarks") or []
    for remark in remarks:
        log(remark)
    initialize_agent(live)
    if live.folders[1:] and not directories(live.meta.get("acp_caps") or {}, live.folders[1:]):
        untold = ", ".join(live.folders[1:])
        remarks = [
            *remarks,
            f"{live.agent.record.name} cannot use {untold}: it supports only one directory",
        ]
    outcome = start_conversation(live, request)
    hello = activate(live, outcome, resuming, remarks, intended_reset(live, request))
    if ignored := untrusted_note(live.meta["workspace_path"]):
        log(ignored)
        hello["remarks"] = [*hello["remarks"], ignored]
    objection = hooks.fire(live, "session_resume" if resuming else "session_start")
    if objection is not None:
        raise HookStopped(objection)
    return hello


def start_conversation(live: Live, request: StartRequest) -> Outcome:
    """Start the session's first conversation with the agent, or restore the last."""
    from agh.keeper.agent import restore

    if request.get("new"):
        return restore.start_conversation(live)
    return restore.restore(
        live,
        require_context=bool(request.get("require_context")),
        fork_of=request.get("fork"),
        fork_message=request.get("fork_message"),
        skip=tuple(request.get("skip") or ()),
    )


def intended_reset(live: Live, request: StartRequest) -> str:
    """Return what the user did that starts a new conversation; empty if a lost memory was not intended."""
    before, now = live.before_start.get("agent_name"), live.meta["agent_name"]
    if before != now:
        lost = live.before_start.get("system_prompt") and not live.meta.get("system_prompt")
        return f"handed over from {before} to {now}" + (
            ", which does not accept a system prompt" if lost else ""
        )
    if request.get("fresh"):
        return "restarted without its memory, as you asked"
    origin = live.meta.get("forked_from")
    return f"forked from {origin['session_id']}" if origin and not live.meta.get("acp_session_ids") else ""


def activate(
    live: Live, outcome: Outcome, resuming: bool, remarks: list[str], intended: str
) -> dict[str, Any]:
    """Record the conversation that was started, make the session active, and return its hello.

    `intended` is why the conversation is a new one; empty if that was not intended.
    """
    from agh.keeper.agent import options
    from agh.keeper.verbs import describe

    restored, log = outcome.restored, live.log
    earlier_ids = live.meta.get("acp_session_ids") or []
    live.meta["acp_session_id"] = restored.agent_session
    live.meta["acp_session_ids"] = list(dict.fromkeys([*earlier_ids, restored.agent_session]))
    live.meta["offers"] = options.offers_in(restored.answer) or live.meta.get("offers") or {}
    remarks = [*remarks, *options.apply(live, resuming=resuming)]
    if resuming:
        with log.batch():
            for remark in remarks:
                log.record("runtime_warning", text=remark)
            if restored.lost:
                summary = f"{intended or MEMORY_LOST}; resumed with {outcome.strategy}"
                severity = "info" if intended else "warning"
                log.add(marker("context_reset", summary, severity=severity, diagnostic=outcome.reason))
            log.record(
                "session_resumed",
                strategy=outcome.strategy,
                reason=outcome.reason,
                acp_session_id=restored.agent_session,
                previous_acp_session_id=live.before_start.get("acp_session_id"),
            )
    live.meta["spent"] = usage.read_spent(live.session, restored.agent_session)
    live.before_start = {}
    strategy = {"strategy": outcome.strategy, "reason": outcome.reason, "at": timestamp()}
    live.update(state="active", restore=strategy if resuming else None, activity=None)
    if live.agent.is_waiting:
        live.show_activity()
    return {
        **describe(live),
        "strategy": outcome.strategy,
        "reason": outcome.reason,
        "context_lost": restored.lost,
        "meant": (restored.lost and intended) or None,
        "remarks": remarks,
    }


def watch_signals_and_time(live: Live) -> None:
    """End the session on a signal, when it is idle for long, or when its time is up. SIGUSR1 pauses it."""
    ends = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    callbacks: dict[int, Callable[[], None]] = dict.fromkeys(ends, lambda: live.end("shutdown"))
    live.loop.on_signals(callbacks | {signal.SIGUSR1: lambda: live.end("paused", "SIGUSR1")})
    live.loop.later(live.settings["session.idle_after"], lambda: end_when_idle(live))
    usage.watch_time(live)


def end_when_idle(live: Live) -> None:
    """End a session that has been idle for long, to free its memory; the next prompt resumes it."""
    left = live.settings["session.idle_after"] - (time.monotonic() - live.activity.last)
    if live.meta.get("resumes_at"):
        live.loop.later(live.settings["session.idle_after"], lambda: end_when_idle(live))
    elif live.turns.current is None and left <= 0:
        live.end("idle")
    else:
        live.loop.later(max(1.0, left), lambda: end_when_idle(live))
