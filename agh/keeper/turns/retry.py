"""Sending a prompt again after a failure that may pass: only while nothing of its turn was shown or done.

It stays one turn with one end. Each failed attempt is a `provider_failure` marker with the agent's error,
so the log tells how often it was sent. A cancel or the session's end gives up the wait at once.
"""

from __future__ import annotations

from collections.abc import Callable

from agh.core.events import marker
from agh.core.frames import Response, error_text, redacted_error
from agh.core.redact import redactor
from agh.core.transient import is_transient, retry_after
from agh.keeper.session import Live, Turn

LONGEST_WAIT = 60.0


def plan(live: Live, turn: Turn, failed: Response, send: Callable[[], None]) -> bool:
    """Inside a batch: whether the prompt goes out again; if so `send` is called after a pause."""
    error = failed.error or {}
    if turn.retries <= 0 or turn.acted or turn.cancelled or live.ending is not None:
        return False
    if live.pause_after_turn is not None or not is_transient(error):
        return False
    turn.retries -= 1
    wait = min(LONGEST_WAIT, max(retry_after(error), live.settings["session.retry_delay"] * 2**turn.attempts))
    turn.attempts += 1
    summary = f"attempt {turn.attempts} failed; the prompt is sent again in {wait:g} s"
    diagnostic = error_text(redacted_error(error, redactor(live.environ)))[:500]
    fields = {"turn": turn.turn_id, "attempt": turn.attempts, "wait_seconds": wait, "diagnostic": diagnostic}
    live.add(marker("provider_failure", summary, severity="warning", **fields))

    def again() -> None:
        turn.waiting = None
        if live.turn is turn and live.ending is None and not turn.cancelled:
            live.active("retry")
            send()

    turn.waiting = live.loop.later(wait, again)
    return True


def give_up(turn: Turn) -> bool:
    """Whether the turn was waiting to be sent again; it is not any more."""
    waiting, turn.waiting = turn.waiting, None
    if waiting is not None:
        waiting.cancel()
    return waiting is not None
