"""Parking: a prompt that met a usage limit goes back into the queue and is sent when the limit resets.

Promises: the turn that met the limit has ended in the log before anything waits, so that a keeper which is
killed meanwhile leaves nothing open; nothing is sent before the reset, while a question waits, or past a
limit of the session; what is sent is the prompt itself if the agent had not begun, else
`session.limits.continue_with`.

The time of the reset is on the wall clock, which advances while a machine sleeps: it is checked at intervals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from agh.core import parking
from agh.core.events import marker, timestamp
from agh.core.redaction.redact import secret_variables
from agh.keeper.session import Live, Turn
from agh.keeper.turns import usage
from agh.store import inputs
from agh.store.inputs import Input

_LONGEST_NAP, _QUESTION_NAP = 30.0, 2.0  # seconds between two looks at the clock


def find_reset(error: Mapping[str, Any]) -> datetime | None:
    """Return when the usage limit resets that ended a turn with this error; None if none did."""
    from agh.core.acp.usage_limit import reset_in_error

    return reset_in_error(error, _now())


def find_reset_in_words(turn: Turn) -> datetime | None:
    """Return when the usage limit resets that the agent's last words speak of, for an agent that failed."""
    from agh.core.acp.usage_limit import reset_in_words

    return reset_in_words(turn.last_words, _now())


def find_reset_in_notice(turn: Turn, stop_reason: str) -> datetime | None:
    """Return when the usage limit resets if the notice of it is all that the agent said before it ended."""
    from agh.core.acp.usage_limit import is_notice, reset_in_words

    if stop_reason != "end_turn" or not is_notice(turn.last_words):
        return None
    return reset_in_words(turn.last_words, _now())


def has_begun(live: Live, turn: Turn) -> bool:
    """Tell whether the agent did or said anything but that there is a limit."""
    from agh.core.acp.usage_limit import is_notice

    if not turn.acted or not is_notice(turn.last_words):
        return turn.acted
    tools = "SELECT 1 FROM events WHERE sequence > ? AND turn_id = ? AND type = 'tool_call' LIMIT 1"
    return live.log.db.execute(tools, [turn.after, turn.turn_id]).fetchone() is not None


def objection(live: Live, turn: Turn, reset: datetime) -> str | None:
    """Say why a prompt cannot wait for the reset; None if it can, an empty text if that is not wanted."""
    if not turn.park and live.settings["session.limits.on_usage_limit"] != "park":
        return ""
    if live.turns.pause_after is not None:  # it may have cancelled the turn, too
        return f"the session has reached its {live.turns.pause_after[1]} limit"
    if (turn.cancelled and turn.limit is None) or live.is_ending:
        return ""
    if live.agent.is_waiting:
        return "a question is waiting for an answer"
    most = live.settings["session.limits.max_windows"]
    if most and _windows(live, turn) >= most:
        return f"it was parked {most} times already (session.limits.max_windows)"
    seconds = max(0.0, (reset - _now()).total_seconds())
    if reached := usage.reached_within(live, seconds):
        return f"the session reaches its {reached} limit before the reset"
    return None


def park(live: Live, turn: Turn, reset: datetime) -> dict[str, Any]:
    """Inside a batch: note until when the session is parked, and return what the turn's end says of it."""
    chance = int.from_bytes(os.urandom(4)) / (1 << 32)
    resumes = reset + timedelta(seconds=chance * live.settings["session.limits.jitter"])
    earlier = _state_of(live, turn)
    environ = live.agent.environ
    live.meta["resumes_at"] = timestamp(resumes)
    live.meta["limited"] = {
        "input_id": turn.input_id,
        "since": timestamp(_now()),
        "windows": _windows(live, turn) + 1,
        "begun": bool(earlier.get("begun")) or has_begun(live, turn),
        "path": environ.get("PATH"),
        "variables": secret_variables(environ),
    }
    return {"resumes_at": live.meta["resumes_at"], "next_turn_id": "turn-" + os.urandom(6).hex()}


def note(live: Live, turn: Turn) -> None:
    """Inside a batch, after the end of the turn: tell in the transcript that the prompt waits."""
    summary = f"usage limit: the prompt stays in the queue until {live.meta.get('resumes_at')}"
    live.log.add(marker("prompt_parked", summary, severity="warning", turn=turn.turn_id))
    live.log.then(live.update)


def holds(live: Live, start_next: Callable[[], None]) -> bool:
    """Tell whether the queue still has to wait; if so, call `start_next` later. Else the session is free."""
    if inputs.next_queued(live.log.db) is None:
        give_up(live)
        return False
    left = parking.seconds_left(live.meta, time.time())
    if left <= 0 and (live.agent.is_waiting or live.meta.get("orphaned_questions")):
        left = _QUESTION_NAP
    if left > 0:
        if live.turns.alarm is not None:
            live.turns.alarm.cancel()
        live.turns.alarm = live.loop.later(min(left, _LONGEST_NAP), start_next)
        return True
    live.update(resumes_at=None)
    return False


def what_to_send(live: Live, input: Input) -> Input:
    """Inside a batch: return the input with what is sent after the reset, and say what that is."""
    state = live.meta.get("limited") or {}
    if state.get("input_id") != input.id:
        return input
    text = live.settings["session.limits.continue_with"]
    continues = bool(state.get("begun") and text)
    what = "the agent is asked to continue" if continues else "the same prompt is sent again"
    live.log.add(marker("limit_reset", f"the usage limit has reset; {what}", turn=input.turn_id))
    return input._replace(prompt=[{"type": "text", "text": text}]) if continues else input


def forget(live: Live, turn: Turn) -> None:
    """Inside a batch: the prompt of a turn is settled, so nothing is known of a limit any more."""
    if _state_of(live, turn):
        live.meta["limited"] = None


def give_up(live: Live) -> None:
    """Let the session be as it was before: nothing waits in its queue any more."""
    if live.meta.get("resumes_at") or live.meta.get("limited"):
        live.update(resumes_at=None, limited=None)


def cancel(live: Live, turn_id: str | None) -> str | None:
    """Cancel the parked prompt and return the id of the turn that it will not have; None if there is none."""
    if not live.meta.get("resumes_at"):
        return None
    number = (live.meta.get("limited") or {}).get("input_id")
    parked = inputs.by_id(live.log.db, number) if isinstance(number, int) else None
    if parked is None or parked.status != "queued" or turn_id not in (None, parked.turn_id):
        return None
    with live.log.batch():
        inputs.cancel(live.log.writer, parked.id)
    if not inputs.count_queued(live.log.db):
        give_up(live)
    return parked.turn_id


def _state_of(live: Live, turn: Turn) -> dict[str, Any]:
    """Return what is known of the turn's prompt if it was parked before."""
    state = live.meta.get("limited") or {}
    return state if state.get("input_id") == turn.input_id else {}


def _windows(live: Live, turn: Turn) -> int:
    return int(_state_of(live, turn).get("windows") or 0)


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
