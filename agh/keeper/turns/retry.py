"""Sending a prompt again after a transient failure, if nothing of its turn was shown or done.

It stays a single turn with a single end. Each failed attempt is a `provider_failure` marker with the agent's
error, so the log shows how often it was sent. A cancel, or the end of the session, gives up at once.
"""

from __future__ import annotations

from collections.abc import Callable

from agh.core.acp.frames import Response, redacted_error
from agh.core.acp.reasons import error_text
from agh.core.acp.transient import is_transient, retry_after
from agh.core.events import marker
from agh.keeper.session import Live, Retry, Turn

LONGEST_WAIT = 60.0


def plan_retry(
    live: Live, turn: Turn, response: Response, send: Callable[[], None], give_up: Callable[[], None]
) -> bool:
    """Inside a batch: tell whether the prompt is sent again; if so, call `send` after a pause.

    `give_up` is called instead if the turn is cancelled while it waits.
    """
    error = response.error or {}
    if turn.retries <= 0 or turn.acted or turn.cancelled or live.is_ending:
        return False
    if live.turns.pause_after is not None or not is_transient(error):
        return False
    turn.retries -= 1
    wait = min(LONGEST_WAIT, max(retry_after(error), live.settings["session.retry_delay"] * 2**turn.attempts))
    turn.attempts += 1
    summary = f"attempt {turn.attempts} failed; retrying in {wait:g} s"
    diagnostic = error_text(redacted_error(error, live.redactor))[:500]
    fields = {"turn": turn.turn_id, "attempt": turn.attempts, "wait_seconds": wait, "diagnostic": diagnostic}
    live.log.add(marker("provider_failure", summary, severity="warning", **fields))

    def send_again() -> None:
        turn.retry = None
        if live.turns.current is turn and not live.is_ending and not turn.cancelled:
            live.activity.note("retry")
            send()

    turn.retry = Retry(live.loop.later(wait, send_again), give_up)
    return True
