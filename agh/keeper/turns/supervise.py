"""Watching a turn: progress for whoever waits, a single warning, and a timeout for an agent that hangs.

Time is monotonic: a clock that jumps or a laptop that sleeps kills nothing. While a tool call is running, a
longer limit on silence applies; while a permission request or a question is waiting for an answer, none does.
"""

from __future__ import annotations

import time
from typing import Any

from agh.core.events import Draft, marker, timestamp
from agh.keeper.session import Live, Turn
from agh.keeper.turns.cancel import ask_to_cancel
from agh.keeper.turns.usage import check_limits

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


def watch(live: Live, turn: Turn) -> None:
    """Check the turn at intervals until it is over."""
    limits = [
        value for key, value in live.settings.items() if key.startswith("session.supervision.") and value
    ]
    pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, min(limits) / 4)) if limits else _LONGEST_PAUSE

    last_check = time.monotonic()

    def check() -> None:
        nonlocal last_check
        now = time.monotonic()
        overslept = now - last_check - pause
        if overslept > pause + 0.5:  # this process was stopped or starved: the agent was not silent
            live.activity.last = min(now, live.activity.last + overslept)
        last_check = now
        if live.turns.current is turn and not live.is_ending:
            live.loop.later(pause, check)
            _check(live, turn)

    live.loop.later(pause, check)


def _check(live: Live, turn: Turn) -> None:
    settings, now = live.settings, time.monotonic()
    if live.agent.is_waiting:
        live.activity.last = now
    idle, elapsed = now - live.activity.last, now - turn.started
    if 0 < settings["session.supervision.heartbeat"] <= now - turn.last_heartbeat:
        turn.last_heartbeat = now
        live.show_activity()
    if 0 < settings["session.supervision.progress_notify_interval"] <= now - turn.last_progress:
        turn.last_progress = now
        text = f"Still working... ({_minutes(elapsed)} elapsed)"
        _record(live, turn, "runtime_progress", text, idle, elapsed)
    if turn.warned and idle < settings["session.supervision.inactivity_warning_after"]:
        turn.warned = False
        _set_health(live, None, marker("session_recovered", "the agent is active again"))
    elif (
        not turn.warned
        and not turn.cancelled
        and 0 < settings["session.supervision.inactivity_warning_after"] <= idle
    ):
        turn.warned = True
        if not turn.warned_before:
            turn.warned_before = True
            text = f"No activity for {_minutes(idle)}"
            _record(live, turn, "runtime_warning", text, idle, elapsed)
        summary = "the agent has been silent for a long time"
        _set_health(live, "unhealthy", marker("session_unhealthy", summary, severity="warning"))
    limit = settings[f"session.supervision.{'tool_' if turn.tools else ''}inactivity_timeout"]
    deadline = settings["session.supervision.prompt_deadline"]
    if limit and idle >= limit:
        _time_out(live, turn, "activity_timeout", f"no activity for {_minutes(idle)}", idle, elapsed)
    elif deadline and elapsed >= deadline:
        _time_out(live, turn, "prompt_deadline", f"the turn took {_minutes(elapsed)}", idle, elapsed)
    with live.log.batch():
        check_limits(live)


def _time_out(live: Live, turn: Turn, detail: str, why: str, idle: float, elapsed: float) -> None:
    """Cancel the turn; if the agent does not end it within the grace, end the session."""
    if turn.timed_out is not None:
        return
    turn.timed_out = (detail, why)
    _record(live, turn, "runtime_warning", f"Cancelled: {why}", idle, elapsed)
    _set_health(live, "hung", marker("prompt_timeout", f"the turn is cancelled: {why}", severity="warning"))
    ask_to_cancel(live, live.settings["session.supervision.timeout_cancel_grace"])


def _record(live: Live, turn: Turn, type: str, text: str, idle: float, elapsed: float) -> None:
    tool_id, tool = next(reversed(turn.tools.items()), (None, {}))
    tool_name = tool.get("tool_name") or tool.get("title") or ("tool" if tool_id else None)
    runtime: dict[str, Any] = {
        "turn_id": turn.turn_id,
        "turn_source": "user",
        "last_activity_at": live.activity.last_at,
        "last_activity_kind": live.activity.last_kind,
        "last_activity_detail": "waiting for session/prompt response",
        "current_tool": tool_name,
        "tool_call_id": tool_id,
        "last_progress_at": timestamp(),
        "idle_seconds": round(idle),
        "elapsed_seconds": round(elapsed),
    }
    with live.log.batch():
        live.log.record(type, turn_id=turn.turn_id, text=text, runtime=runtime)


def _set_health(live: Live, health: str | None, event: Draft) -> None:
    live.activity.health = health
    with live.log.batch():
        live.log.add(event)
        live.log.then(live.show_activity)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
