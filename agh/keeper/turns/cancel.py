"""Cancelling a turn: ask the agent to end it, and end the session if it does not in time."""

from __future__ import annotations

from typing import Any

from agh.core.events import marker
from agh.errors import NoTurn
from agh.keeper.agent.waiting import cancel_waiting
from agh.keeper.server import Answer
from agh.keeper.session import Live, Turn
from agh.store import inputs


def cancel_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Cancel the running turn; if the agent does not end it within the grace, end the session."""
    turn = live.turns.current
    if turn is None and live.meta.get("resumes_at"):
        from agh.keeper.turns import parking

        turn_id = parking.cancel(live, request.get("turn_id"))
        if turn_id is not None:
            answer({"turn_id": turn_id})
            return
    if turn is None or request.get("turn_id") not in (None, turn.turn_id):
        raise NoTurn(live.session_id)
    turn.limit = None  # the user gives the prompt up
    grace = request.get("grace")
    ask_to_cancel(live, None if grace is None else float(grace))
    answer({"turn_id": turn.turn_id})


def ask_to_cancel(live: Live, grace: float | None = None, summary: str = "the turn was cancelled") -> None:
    """Ask the agent to end its turn; if it does not within the grace, the session ends.

    Some agents answer a cancelled prompt only after their open permission request or question was answered.
    """
    turn, agent, log = live.turns.current, live.agent.connection, live.log
    if turn is None or agent is None:
        return
    if grace is not None or not turn.cancelled:
        limit = live.settings["session.cancel_grace"] if grace is None else grace
        live.loop.later(limit, lambda: _end_overdue(live, turn, limit))
    if turn.cancelled:
        return
    turn.cancelled = True
    with log.batch():
        log.add(marker("prompt_cancel", summary, turn=turn.turn_id))
        log.then(lambda: agent.notify("session/cancel", {"sessionId": live.meta["acp_session_id"]}))
        cancel_waiting(live, decided_by="cancel")
        if turn.retry is not None:
            turn.retry.timer.cancel()
            turn.retry.give_up()


def steer_at_boundary(live: Live) -> None:
    """Inside a batch, after a tool has ended: cancel the turn if a steering prompt waits."""
    if live.turns.current is not None and inputs.is_steering(live.log.db):
        live.log.then(lambda: ask_to_cancel(live))


def _end_overdue(live: Live, turn: Turn, grace: float) -> None:
    if live.turns.current is not turn:
        return
    if live.turns.pause_after is not None:
        live.end(*live.turns.pause_after)
    elif turn.timed_out is not None:
        detail, why = turn.timed_out
        summary = f"{why}, and the agent did not end the turn when asked to"
        live.fail("timeout", "timeout", summary, detail=detail)
    else:
        summary = f"the agent did not end the cancelled turn within {grace:g} s"
        live.fail("timeout", "cancellation", summary)
