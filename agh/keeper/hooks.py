"""Hooks: the user's commands and plugins that hear what happens in a session, and may object.

Every run is a row in `hook_runs`. A command gets the event as JSON on its standard input and is killed at its
timeout. A required hook that fails stops the session with `hook_stopped`; a plugin objects by raising `Veto`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from agh.adapters import registry
from agh.adapters.calls import HookRun, PerPlugin
from agh.adapters.hookspecs import Veto
from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.settings.hooks import Hook
from agh.keeper.leash.child import Leashed
from agh.keeper.log import Log
from agh.keeper.session import Live
from agh.store.rows import insert

OUTPUT_LIMIT = 4_000
LAST_GRACE = 5.0


class Run(NamedTuple):
    """How a hook ended; `outcome` is ok, failed, timeout or veto."""

    outcome: str
    exit_code: int | None
    output: str


def fire(live: Live, event: str, **payload: Any) -> str | None:
    """Run the hooks of an event, and return the objection, if any. Asynchronous hooks may still run."""
    message = {"event": event, "session_id": live.session_id, "timestamp": timestamp(), **payload}
    notify(live, event, **payload)
    return next(
        (why for why in (*_plugins(live, event, message), *_commands(live, event, message)) if why), None
    )


def notify(live: Live, event: str, **payload: Any) -> None:
    """Notify the user of an event, if the settings say so. It may be one that no hook hears."""
    if live.settings["notify"] is not None:
        from agh.keeper.notify.plan import plan  # few are notified

        plan(live, event, payload)


def await_all(live: Live) -> None:
    """Wait for the hooks that still run, but not for long: the session is ending."""
    if not live.loop.run_until(lambda: not live.hooks, LAST_GRACE):
        for hook in list(live.hooks):
            hook.expire()
        live.loop.run_until(lambda: not live.hooks, LAST_GRACE)


def _commands(live: Live, event: str, message: dict[str, Any]) -> Iterator[str | None]:
    for hook in live.settings["hooks"]:
        if hook.event != event:
            continue
        start, at = time.monotonic(), timestamp()
        try:
            running = RunningHook(live, hook, message)
        except OSError as error:  # out of descriptors or processes
            run = Run("failed", None, str(error))
            _store(live.log, event, hook.command, "config", hook.required, at, start, run)
            if hook.required:
                yield f"the hook {hook.command!r} could not be started: {error}"
            continue
        if hook.mode == "sync":
            live.loop.run_until(lambda running=running: running.run is not None)  # type: ignore[misc]
            if running.run is not None and running.run.outcome != "ok" and hook.required:
                yield _explain(hook.command, running.run)


def _explain(command: Any, run: Run) -> str:
    """Say how a command failed, for the user."""
    how = "timed out" if run.outcome == "timeout" else "failed"
    return f"the hook {command!r} {how}"


def _plugins(live: Live, event: str, message: dict[str, Any]) -> list[str]:
    """Call the plugins' hook, each with its own copy of the event; return their objections."""
    objections = []

    def record(hook: HookRun) -> None:
        run = _plugin_run(hook.error)
        at = timestamp(datetime.fromtimestamp(hook.started_at, UTC))
        _store(live.log, event, hook.plugin, f"plugin {hook.plugin}", False, at, hook.started, run)
        if run.outcome == "veto":
            objections.append(f"plugin {hook.plugin} refused this: {run.output}")

    registry.call_hook("agh_lifecycle", record, event=PerPlugin(lambda plugin: dict(message)))
    return objections


def _plugin_run(error: Exception | None) -> Run:
    if error is None:
        return Run("ok", None, "")
    if isinstance(error, Veto):
        return Run("veto", None, str(error))
    return Run("failed", None, f"{type(error).__name__}: {error}")


class RunningHook:
    """A command that is running; `run` is None until it has ended."""

    def __init__(self, live: Live, hook: Hook, message: dict[str, Any]) -> None:
        self.run: Run | None = None
        self._live, self._hook = live, hook
        self._start, self._at = time.monotonic(), timestamp()
        self._output = bytearray()
        self._timed_out = False
        self._process = Leashed(
            live.loop,
            list(hook.argv),
            live.agent.environ,
            live.meta["workspace_path"],
            self._take,
            self._finish,
        )
        self._timer = live.loop.later(hook.timeout, self.expire)
        live.hooks.append(self)
        self._process.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        self._process.close_stdin_when_sent()

    @property
    def leash_pid(self) -> int:
        return self._process.leash_pid

    def _take(self, stream: int, data: bytes) -> None:
        self._output += data[: max(0, OUTPUT_LIMIT - len(self._output))]

    def expire(self) -> None:
        """Kill the command, and record a timeout."""
        self._timed_out = True
        self._process.kill()

    def _finish(self) -> None:
        self._timer.cancel()
        code = (self._process.exit or {}).get("exit")
        outcome = "timeout" if self._timed_out else "ok" if code == 0 else "failed"
        run = Run(outcome, code, self._output.decode(errors="replace"))
        hook = self._hook
        _store(self._live.log, hook.event, hook.command, "config", hook.required, self._at, self._start, run)
        self.run = run
        self._live.hooks.remove(self)
        if hook.mode == "async" and hook.required and outcome != "ok":
            self._live.end("hook_stopped", _explain(hook.command, run))


def _store(
    log: Log, event: str, name: str, source: str, required: bool, at: str, start: float, run: Run
) -> None:
    row = {
        "event": event,
        "hook": name,
        "source": source,
        "required": int(required),
        "started_at": at,
        "duration_ms": round((time.monotonic() - start) * 1000),
        "outcome": run.outcome,
        "exit_code": run.exit_code,
        "output": run.output,
    }
    with log.batch():
        insert(log.db, "hook_runs", row)
