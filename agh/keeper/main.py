"""A keeper: the process that holds one live session. See process.py for what it is given.

Its life is one story, told by `keep`: start the agent, get the conversation back, say that it is ready (or
why not), serve, drain, write the end. It is the only writer of the session's log. Killed at any
point, it leaves a log that the next keeper can continue.
"""

from __future__ import annotations

import signal
import time
from typing import Any

from agh import config
from agh.adapters.agents import AgentRecord
from agh.core.events import marker, timestamp
from agh.core.redact import redactor
from agh.errors import AgentNeedsLogin, AghError, Bug, HookStopped, PlaceGone, StoreFailed, TimedOut, Usage
from agh.keeper import crash, ending, hooks
from agh.keeper.agent import options, restore
from agh.keeper.agent.connection import RpcError
from agh.keeper.agent.launch import agent_record, begin_agent, shake_hands
from agh.keeper.loop import Loop
from agh.keeper.process import Ready, log, run
from agh.keeper.server import Control
from agh.keeper.session import Live
from agh.keeper.turns import supervise, turn, usage
from agh.keeper.verbs import describe, verbs
from agh.store import meta
from agh.store.lock import Lock
from agh.store.writer import Writer

FORGOTTEN = "the agent's own memory is gone"
# A start that fails must leave these as they were.
WAY_BACK = (
    "agent_name",
    "command",
    "acp_session_id",
    "acp_session_ids",
    "inject_history",
    "limits",
    "mode",
    "model",
    "offers",
    "options",
    "system_prompt",
)


def keep(held: Lock, ready: Ready, intent: dict[str, Any]) -> None:
    """Keep a session from its start to its end."""
    live = make_live(held, intent)
    resuming = not intent.get("new")
    remarks = [str(remark) for remark in intent.get("remarks") or []]
    for remark in remarks:
        log(remark)
    control = Control(live.loop, live.directory, verbs(live))
    try:
        begin_agent(live)
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
    turn.watch_time(live)
    live.loop.later(0, lambda: turn.dispatch_next(live))
    ready.succeeded(hello)
    try:
        live.loop.run_until(lambda: live.ending is not None)
        ending.end_session(live)
    except StoreFailed as error:
        log(f"the log cannot be written; the agent is stopped: {error.message}")
        if live.agent is not None:
            live.agent.process.end(eof=0, term=0)
        raise
    finally:
        control.close()
    live.writer.close()
    held.release()


def make_live(held: Lock, intent: dict[str, Any]) -> Live:
    """Read the session and its settings, with what the command wants to change about it."""
    stored = meta.read(held.directory)
    before = {key: stored.get(key) for key in WAY_BACK}
    if intent.get("agent"):
        hand_over(stored, str(intent["agent"]))
    record: AgentRecord = agent_record(stored["agent_name"], stored.get("command"), stored["workspace_path"])
    settings = config.load(stored["workspace_path"])
    stored["limits"] = {**(stored.get("limits") or {}), **(intent.get("limits") or {})}
    stored["spent"] = usage.spent(held.directory, stored.get("acp_session_id"))
    usage.refuse_spent(stored, record, settings)
    live = Live(Loop(), held.directory, stored, Writer(held, record.name), settings, record)
    live.way_back = before
    if intent.get("fresh"):
        live.meta["acp_session_id"] = None
    return live


def hand_over(stored: meta.Meta, agent_name: str) -> None:
    """Give the session to another agent: it has no memory of it, and its own models and modes."""
    if agent_name != stored["agent_name"]:
        stored["agent_name"], stored["command"], stored["acp_session_id"] = agent_name, None, None
        stored["model"], stored["mode"], stored["options"], stored["offers"] = None, None, {}, {}


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
    live.meta["spent"] = usage.spent(live.directory, restored.agent_session)
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
    ending.write_end(live)
    live.writer.close()


if __name__ == "__main__":
    run(keep)
