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

from agh import __version__, config
from agh.adapters import registry
from agh.adapters.agents import environment
from agh.core.events import marker, timestamp
from agh.core.inject import history
from agh.core.transcript import transcript
from agh.errors import (
    AgentNeedsLogin,
    AghError,
    Bug,
    EventsEmpty,
    StoreFailed,
    TimedOut,
    WorkspaceGone,
)
from agh.keeper import attach, crash, orphans, permissions, restore, stop, turns
from agh.keeper.agent import Agent, RpcError
from agh.keeper.control import Answer, Control
from agh.keeper.live import Live, log
from agh.keeper.loop import Loop
from agh.keeper.recover import recover
from agh.keeper.requests import take_frames
from agh.store import meta
from agh.store.lock import Lock
from agh.store.reader import Reader
from agh.store.writer import Writer

CLIENT = {
    "protocolVersion": 1,
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    "clientInfo": {"name": "agh", "version": __version__},
}


def main() -> None:
    directory, lock_fd, ready_fd, intent = sys.argv[1:5]
    for fd in (lock_fd, ready_fd):
        os.set_inheritable(int(fd), False)
    os.chdir("/")
    ready = Ready(int(ready_fd))
    try:
        keep(Lock(int(lock_fd), directory), ready, orjson.loads(intent))
    except AghError as error:
        log(f"{error.code}: {error.message}")
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
    if resuming:
        end_what_escaped(meta.read(held.directory))
        recover(held)
    stored = meta.read(held.directory)
    writer = Writer(held, stored["agent_name"])
    live = Live(Loop(), held.directory, stored, writer, config.load(stored["workspace_path"]))
    try:
        validate(live, resuming)
        if intent.get("fresh"):
            live.meta["acp_session_id"] = None
        start_agent(live)
        hello = open_session(live, resuming, bool(intent.get("require_context")))
        control = Control(live.loop, held.directory, verbs(live))
    except AghError as error:
        end_failed_start(live, error)
        raise
    live.loop.on_signal((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), lambda: live.end("shutdown"))
    live.loop.later(live.settings["session.idle_after"], lambda: end_when_idle(live))
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


def end_what_escaped(stored: meta.Meta) -> None:
    """Nothing of an earlier launch may be left when a new agent starts."""
    launch = stored.get("launch")
    if launch:
        ended = orphans.end(orphans.Launch(launch["cookie"], launch["boot_id"], launch["ticks"]))
        for orphan in ended:
            log(f"ended process {orphan.pid} ({orphan.comm}), left over from an earlier launch")


def validate(live: Live, resuming: bool) -> None:
    workspace = live.meta["workspace_path"]
    if not os.path.isdir(workspace):
        raise WorkspaceGone(live.session_id, workspace)
    if resuming and live.writer.last_sequence == 0 and live.meta.get("turns"):
        raise EventsEmpty(live.session_id)


def start_agent(live: Live) -> None:
    """Start the agent below its leash and shake hands. The launch is on disk before the process exists."""
    command = live.meta.get("command")
    known = None if command else registry.agent(live.meta["agent_name"])
    argv = command or list(known.argv if known else ())
    launch = orphans.new_launch()
    live.environ = {
        **(environment(known) if known else os.environ),
        orphans.COOKIE_VARIABLE: launch.cookie,
        "AGH_SESSION_ID": live.session_id,
    }
    live.update(
        state="starting",
        stop_reason=None,
        stop_detail=None,
        failure=None,
        launch=launch._asdict(),
        keeper={"pid": os.getpid(), "started_at": timestamp()},
    )
    agent = live.agent = Agent(
        live.loop, live.meta["agent_name"], argv, live.environ, live.meta["workspace_path"]
    )
    agent.on_frames = lambda frames: take_frames(live, frames)
    agent.on_end = lambda: live.fail("agent_crashed", "process_exit", agent.death().message)
    said = agent.call("initialize", CLIENT, live.settings["timeouts.initialize"])
    said = said if isinstance(said, dict) else {}
    live.meta["acp_caps"] = said.get("agentCapabilities") or {}
    live.meta["auth_methods"] = said.get("authMethods") or []


def open_session(live: Live, resuming: bool, require_context: bool) -> dict[str, Any]:
    """A conversation with the agent, new or restored; then the session is active."""
    before = live.meta.get("acp_session_id")
    try:
        if resuming:
            found = restore.restore(live, require_context=require_context)
        else:
            session = restore.new_session(live)
            found = restore.Restored("new", "", session["sessionId"], session, False)
    except RpcError as error:
        if restore.needs_login(error):
            raise AgentNeedsLogin(live.meta["agent_name"], error.message) from None
        raise
    live.meta["acp_session_id"] = found.acp_session_id
    known = live.meta.get("acp_session_ids") or []
    live.meta["acp_session_ids"] = list(dict.fromkeys([*known, found.acp_session_id]))
    used = {"strategy": found.strategy, "reason": found.reason, "at": timestamp()}
    if resuming:
        if found.strategy == "inject_history":
            with Reader(live.directory) as reader:
                live.history = history(transcript(reader.rows()), live.settings["session.history_budget"])
        with live.batch():
            if found.lost:
                live.add(
                    marker("context_reset", "the agent starts without its memory", diagnostic=found.reason)
                )
            live.record(
                "session_resumed",
                strategy=found.strategy,
                reason=found.reason,
                acp_session_id=found.acp_session_id,
                previous_acp_session_id=before,
            )
    live.update(state="active", restore=used if resuming else None, activity=None)
    return {**describe(live), "strategy": found.strategy, "reason": found.reason, "context_lost": found.lost}


def verbs(live: Live) -> dict[str, Any]:
    def hello(request: dict[str, Any], answer: Answer) -> None:
        answer(describe(live))

    return {
        "hello": hello,
        "prompt": lambda request, answer: turns.accept(live, request, answer),
        "cancel": lambda request, answer: turns.cancel(live, request, answer),
        "decide": lambda request, answer: permissions.decide_verb(live, request, answer),
        "attach": lambda request, answer: attach.attach(live, request, answer),
        "detach": lambda request, answer: attach.detach(live, request, answer),
        "stop": lambda request, answer: stop.stop(live, request, answer),
    }


def describe(live: Live) -> dict[str, Any]:
    return {
        "session_id": live.session_id,
        "version": __version__,
        "pid": os.getpid(),
        "agent_pid": live.agent.process.pid if live.agent else None,
        "turn_id": live.turn.turn_id if live.turn else None,
        "last_sequence": live.writer.last_sequence,
    }


def end_failed_start(live: Live, error: AghError) -> None:
    """The start failed: say so in the log and the metadata, end the agent, keep the way back."""
    kind = "startup_failure"
    if isinstance(error, TimedOut):
        kind = "timeout"
    elif isinstance(error, AgentNeedsLogin):
        kind = "provider_auth_failure"
    elif isinstance(error, RpcError):
        kind = "handshake_failure"
    elif error.code in ("restore_failed", "context_lost"):
        kind = "load_session_failure"
    live.failure = {"kind": kind, "summary": error.message, "crash_bundle_path": None}
    live.ending = ("error", error.message)
    if live.agent is not None:
        live.agent.process.end(eof=0.5, term=0.5)
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
