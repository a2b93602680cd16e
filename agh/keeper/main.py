"""A keeper: the process that holds one live session. `python -m agh.keeper.main DIR LOCK_FD READY_FD INTENT`

Its life is one story, told by `keep`: recover, start the agent, get the conversation back, open the
socket, say that it is ready (or why not), serve, drain, write the end. It is the only writer of the
session's log. Killed at any point, it leaves a log that the next keeper can go on with.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import orjson

from agh import config
from agh.core.events import marker, timestamp
from agh.errors import (
    AgentNeedsLogin,
    AghError,
    Bug,
    EventsEmpty,
    HookStopped,
    PlaceGone,
    SessionArchived,
    StoreFailed,
    TimedOut,
    Usage,
    WorkspaceGone,
)
from agh.keeper import (
    crash,
    hooks,
    options,
    restore,
    spending,
    stop,
    supervise,
    turns,
    worktree,
)
from agh.keeper.agent import RpcError
from agh.keeper.control import Control
from agh.keeper.launch import agent_record, start_agent
from agh.keeper.live import Live, log
from agh.keeper.loop import Loop
from agh.keeper.recover import recover
from agh.keeper.verbs import describe, verbs
from agh.store import meta
from agh.store.lock import Lock
from agh.store.reader import Reader
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


def main() -> None:
    directory, lock_fd, ready_fd, intent = sys.argv[1:5]
    for fd in (lock_fd, ready_fd):
        os.set_inheritable(int(fd), False)
    os.chdir("/")
    ready, held = Ready(int(ready_fd)), Lock(int(lock_fd), directory)
    try:
        keep(held, ready, orjson.loads(intent))
    except AghError as error:
        log(f"{error.code}: {error.message}")
        held.release()  # whoever hears of the failure may try again at once
        ready.failed(error)
        sys.exit(error.exit)
    except Exception as error:
        import traceback

        log(traceback.format_exc())
        ready.failed(Bug(f"{type(error).__name__}: {error}", hint=f"see {directory}/keeper.log"))
        sys.exit(Bug.exit)


def keep(held: Lock, ready: Ready, intent: dict[str, Any]) -> None:
    """The story."""
    resuming = not intent.get("new")
    stored = meta.read(held.directory)
    if intent.get("agent"):
        hand_over(stored, str(intent["agent"]))
    remarks = validate(stored, held.directory)
    record = agent_record(stored["agent_name"], stored.get("command"), stored["workspace_path"])
    settings = config.load(stored["workspace_path"])
    if resuming:
        recover(held)
    before = meta.read(held.directory)
    stored["limits"] = {**(stored.get("limits") or {}), **(intent.get("limits") or {})}
    stored = {**before, **{key: stored.get(key) for key in WAY_BACK}}  # type: ignore[typeddict-item]
    stored["spent"] = spending.spent(held.directory, stored.get("acp_session_id"))
    spending.refuse_spent(stored, record, settings)
    live = Live(Loop(), held.directory, stored, Writer(held, record.name), settings, record)
    live.way_back = {key: before.get(key) for key in WAY_BACK}
    control = Control(live.loop, held.directory, verbs(live))
    try:
        if intent.get("fresh"):
            live.meta["acp_session_id"] = None
        start_agent(live)
        found = converse(live, intent)
        hello = open_session(live, found, resuming, remarks, meant_to_forget(live, intent))
        objection = hooks.fire(live, "session_resume" if resuming else "session_start")
        if objection is not None:
            raise HookStopped(objection)
    except AghError as error:
        live.meta |= live.way_back  # type: ignore[typeddict-item]
        end_failed_start(live, error)
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


def validate(stored: meta.Meta, directory: str) -> list[str]:
    """Refuse before anything is touched, but make a lost worktree again; what was done, in words."""
    if stored.get("archived"):
        raise SessionArchived(stored["id"])
    tree = stored.get("worktree")
    remarks = worktree.mend(stored["id"], tree) if worktree.is_ours(tree) else []
    for remark in remarks:
        log(remark)
    if not os.path.isdir(stored["workspace_path"]):
        raise WorkspaceGone(stored["id"], stored["workspace_path"])
    with Reader(directory) as reader:
        if stored.get("turns") and not reader.last_sequence():
            raise EventsEmpty(stored["id"])
    return remarks


def hand_over(stored: meta.Meta, agent_name: str) -> None:
    """Give the session to another agent: it has no memory of it, and its own models and modes."""
    if agent_name != stored["agent_name"]:
        stored["agent_name"], stored["command"], stored["acp_session_id"] = agent_name, None, None
        stored["model"], stored["mode"], stored["options"], stored["offers"] = None, None, {}, {}


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


class Ready:
    """The pipe to the command that started us: one line, then nothing."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def succeeded(self, hello: dict[str, Any]) -> None:
        self._tell({"ok": hello})

    def failed(self, error: AghError) -> None:
        self._tell({"error": error.for_relay()})

    def _tell(self, message: dict[str, Any]) -> None:
        if self._fd < 0:
            return
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        try:
            os.write(self._fd, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        except OSError:
            pass
        os.close(self._fd)
        self._fd = -1


if __name__ == "__main__":
    main()
