"""Watching a turn: progress for those who wait, one warning, and an end to what hangs.

Time is monotonic: a clock that jumps or a laptop that sleeps kills nothing. Silence while a tool call
is running is counted against a longer limit, silence while a person is asked against none.
"""

from __future__ import annotations

import time
from typing import Any

from agh.core.events import marker, timestamp
from agh.keeper.session import Live, Turn
from agh.keeper.turns import turn as turns

_SHORTEST_LOOK, _LONGEST_LOOK = 0.05, 5.0


def watch(live: Live, turn: Turn) -> None:
    """Look at the turn now and then until it is over."""
    spans = [
        value for key, value in live.settings.items() if key.startswith("session.supervision.") and value
    ]
    pause = min(_LONGEST_LOOK, max(_SHORTEST_LOOK, min(spans) / 4)) if spans else _LONGEST_LOOK

    looked = time.monotonic()

    def look() -> None:
        nonlocal looked
        now = time.monotonic()
        overslept = now - looked - pause
        if overslept > pause + 0.5:  # we were stopped or starved: that is not the agent's silence
            live.last_activity = min(now, live.last_activity + overslept)
        looked = now
        if live.turn is turn and live.ending is None:
            live.loop.later(pause, look)
            _look(live, turn)

    live.loop.later(pause, look)


def _look(live: Live, turn: Turn) -> None:
    settings, now = live.settings, time.monotonic()
    if live.asked:
        live.last_activity = now
    idle, elapsed = now - live.last_activity, now - turn.began
    if 0 < settings["session.supervision.heartbeat"] <= now - turn.last_heartbeat:
        turn.last_heartbeat = now
        live.show_activity()
    if 0 < settings["session.supervision.progress_notify_interval"] <= now - turn.last_progress:
        turn.last_progress = now
        _tell(
            live, turn, "runtime_progress", f"Still working... ({_minutes(elapsed)} elapsed)", idle, elapsed
        )
    if turn.warned and idle < settings["session.supervision.inactivity_warning_after"]:
        turn.warned = False
        _health(live, None, marker("session_recovered", "the agent is active again"))
    elif (
        not turn.warned
        and not turn.cancelled
        and 0 < settings["session.supervision.inactivity_warning_after"] <= idle
    ):
        turn.warned = True
        if not turn.warned_before:
            turn.warned_before = True
            text = f"No activity for {_minutes(idle)}"
            _tell(live, turn, "runtime_warning", text, idle, elapsed)
        summary = "the agent has been silent for long"
        _health(live, "unhealthy", marker("session_unhealthy", summary, severity="warning"))
    limit = settings[f"session.supervision.{'tool_' if turn.tools else ''}inactivity_timeout"]
    deadline = settings["session.supervision.prompt_deadline"]
    if limit and idle >= limit:
        _time_out(live, turn, "activity_timeout", f"no activity for {_minutes(idle)}", idle, elapsed)
    elif deadline and elapsed >= deadline:
        _time_out(live, turn, "prompt_deadline", f"the turn took {_minutes(elapsed)}", idle, elapsed)
    with live.batch():
        turns.check_limits(live)


def _time_out(live: Live, turn: Turn, detail: str, why: str, idle: float, elapsed: float) -> None:
    """Cancel the turn; if the agent does not end it within the grace, end the session."""
    if turn.timed_out is not None:
        return
    turn.timed_out = (detail, f"{why}, and the agent did not end its turn when it was cancelled")
    _tell(live, turn, "runtime_warning", f"Cancelled: {why}", idle, elapsed)
    _health(live, "hung", marker("prompt_timeout", f"the turn is cancelled: {why}", severity="warning"))
    turns.ask_to_cancel(live, live.settings["session.supervision.timeout_cancel_grace"])


def _tell(live: Live, turn: Turn, type: str, text: str, idle: float, elapsed: float) -> None:
    tool_id, tool_name = next(reversed(turn.tools.items()), (None, None))
    last = timestamp()
    runtime: dict[str, Any] = {
        "turn_id": turn.turn_id,
        "turn_source": "user",
        "last_activity_at": live.last_activity_at,
        "last_activity_kind": live.last_activity_kind,
        "last_activity_detail": "waiting for session/prompt response",
        "current_tool": tool_name,
        "tool_call_id": tool_id,
        "last_progress_at": last,
        "idle_seconds": round(idle),
        "elapsed_seconds": round(elapsed),
    }
    with live.batch():
        live.record(type, turn_id=turn.turn_id, text=text, runtime=runtime)


def _health(live: Live, health: str | None, said: Any) -> None:
    live.health = health
    with live.batch():
        live.add(said)
        live.then(live.show_activity)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
