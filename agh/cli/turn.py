"""Sending a prompt and showing its turn. The turn is read from the log: what is shown is on disk."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from agh.cli.ask import answer_early, take_request
from agh.cli.turn_view import View, view_for
from agh.console.output import remark
from agh.core.events import MARKER_CREATED, TURN_END_TYPES, Row
from agh.core.refusal import Refusal, RefusalTracker
from agh.errors import (
    AghError,
    KeeperDied,
    KeeperNotResponding,
    PromptDropped,
    TimedOut,
)
from agh.home import Session
from agh.keeper import client
from agh.sessions.prompt import send
from agh.store.follow import follow
from agh.store.reader import EVERYTHING
from agh.store.views import session_view

INTERRUPTED = 130
LAST_WAIT = 5.0  # seconds for a turn cancelled at its timeout to show its end
CANCEL_LIMIT, CANCEL_VALID = 2.0, 600.0  # a keeper that was frozen still cancels the turn


class TimeLimit:
    """The time that a command may take for its turn, counted from here; None is no limit.

    As a context it ends the command LAST_WAIT after the limit even if it is blocked, as by a full pipe.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def __enter__(self) -> TimeLimit:
        if self.seconds is not None:
            signal.signal(signal.SIGALRM, self._expired)
            signal.setitimer(signal.ITIMER_REAL, self.seconds + LAST_WAIT + CANCEL_LIMIT)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _expired(self, *_: object) -> None:
        raise TimedOut("the turn", self.seconds or 0.0)


class Outcome(NamedTuple):
    """How a turn ended; `row` is the event that ended it, `refusal` the permission it ended for want of."""

    row: Row
    stop_reason: str
    cancelled_by_us: bool
    refusal: Refusal | None


def send_and_tell(
    session: Session, prompt: list[dict[str, Any]], *, refuse: bool = False, **args: Any
) -> dict[str, Any]:
    """Queue a prompt, say so if the session had to be started for it, and return the keeper's receipt.

    `refuse` refuses what the agent asks for while it starts.
    """
    receipt, started = send(session, prompt, on_request=partial(answer_early, refuse), **args)
    if started is not None:
        tell_restored(started)
    return receipt


def tell_restored(hello: dict[str, Any]) -> None:
    """Say how the session was resumed, and warn if the agent lost its context."""
    for text in hello.get("remarks") or []:
        remark(text)
    text = f"resumed by {hello.get('strategy')}"
    if hello.get("meant"):
        has_history = hello.get("strategy") == "inject_history"
        text = f"{hello['meant']}; the agent " + (
            "gets the history with the next prompt" if has_history else "starts without the history"
        )
    elif hello.get("context_lost"):
        text = f"warning: the agent lost its memory of this session ({hello.get('reason')}); {text}"
    remark(text)


def show_turn(
    session: Session,
    receipt: dict[str, Any],
    output: str,
    limit: TimeLimit | None = None,
    *,
    refuse: bool = False,
    stops: bool = False,
) -> int:
    """Show a turn until it ends, and return the command's exit number.

    Ctrl-C cancels the turn; a second one ends the command, which then `stops` the session or leaves the turn
    running. `refuse` refuses the agent's requests for permission and declines its questions at once instead
    of asking.
    """
    with Presses(
        session, receipt, stops=stops
    ) as presses:  # first of all: from here on Ctrl-C is about the turn
        metadata = session_view(session)
        activity = metadata.get("activity") or {}
        if activity.get("pending_permissions") or activity.get("pending_questions"):
            _answer_outside_turns(session, refuse)
        view = view_for(output, metadata)
        outcome = _watch_turn(session, receipt, view, presses, limit or TimeLimit(None), refuse=refuse)
    return exit_code(outcome, session, receipt["input_id"])


def _answer_outside_turns(session: Session, refuse: bool) -> None:
    """Show what the agent asked for outside any turn, and answer it if that is possible here."""
    from agh.sessions.requests.permissions import requests
    from agh.sessions.requests.questions import questions

    for request in [*requests(session, everything=False), *questions(session, everything=False)]:
        if not request["turn_id"]:
            answer_early(refuse, session, request["request_id"])


def _watch_turn(
    session: Session,
    receipt: dict[str, Any],
    view: View,
    presses: Presses,
    limit: TimeLimit,
    *,
    refuse: bool,
) -> Outcome:
    turn_id, deadline = receipt["turn_id"], limit.deadline
    late: AghError = _timed_out(session, limit.seconds)
    timed_out, tracker = False, RefusalTracker(turn_id)
    if receipt["status"] == "cancelled":
        raise PromptDropped(_name(session))
    silence = None
    if sys.stderr.isatty():  # a person watches
        from agh.cli.silence import Silence

        silence = Silence()
    # With a deadline or on a terminal, ask for empty batches too, so that the clock is checked in time.
    tick = 0.1 if deadline is not None else 1.0 if silence else None
    batches = follow([(session, int(receipt["after"]))], EVERYTHING, tick=tick)
    with closing(view):
        for _, rows in batches:
            if silence and not rows and (text := silence.note()):
                view.pause()
                remark(text)
                view.resume()
            if deadline is not None and time.monotonic() >= deadline:
                if timed_out:
                    raise late
                timed_out, deadline = True, deadline + LAST_WAIT
                if not presses.cancel(limit=CANCEL_LIMIT, valid=CANCEL_VALID):
                    late = KeeperNotResponding(_name(session))
            for row in rows:
                if _is_drop(row, turn_id):
                    raise late if timed_out else PromptDropped(_name(session))
                if row.turn_id not in (turn_id, ""):
                    continue
                presses.started = presses.started or row.turn_id == turn_id
                tracker.feed(row)
                if silence:
                    silence.hear(row)
                if row.type in ("permission", "question") and not row.parsed().get("decision"):
                    take_request(session, row, view, deadline, refuse=refuse)
                else:
                    view.show(row)
                if row.turn_id == turn_id and row.type in TURN_END_TYPES:
                    if timed_out:
                        raise late
                    stop_reason = str(row.parsed().get("stop_reason") or "")
                    return Outcome(row, stop_reason, presses.count > 0, tracker.refusal(stop_reason))
            view.flush()
    from agh.cli.guide.turn_failure import retry_command
    from agh.keeper.failures import explain_end

    hint = retry_command(session, receipt["input_id"]) if presses.started else None
    raise explain_end(session, KeeperDied(_name(session), hint=hint))


def _is_drop(row: Row, turn_id: str) -> bool:
    if row.type != MARKER_CREATED:
        return False
    content = row.parsed()
    return content.get("kind") == "prompt_dropped" and content.get("turn") == turn_id


def _timed_out(session: Session, seconds: float | None) -> TimedOut:
    return TimedOut("the turn", seconds or 0.0, hint=f"agh session recap {_name(session)}")


def exit_code(outcome: Outcome, session: Session, input_id: int) -> int:
    """Return 0 for a completed turn and 130 for one we cancelled; raise what says why it ended otherwise."""
    if outcome.stop_reason == "cancelled" and outcome.cancelled_by_us:
        return INTERRUPTED
    if outcome.stop_reason == "end_turn" and outcome.refusal is None:
        return 0
    from agh.cli.guide.turn_failure import failure_of

    raise failure_of(session, input_id, outcome.row.parsed(), outcome.refusal)


def _name(session: Session) -> str:
    return session.id


class Presses:
    """Ctrl-C while a turn runs: the first asks the agent to stop, the second raises KeyboardInterrupt.

    They say what the command does next: it `stops` the session, or leaves the turn running.
    """

    def __init__(self, session: Session, receipt: dict[str, Any], *, stops: bool = False) -> None:
        self.session, self.receipt, self.stops, self.count = session, receipt, stops, 0
        self.started = receipt["status"] != "queued"
        self._before: Any = None

    def __enter__(self) -> Presses:
        self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _pressed(self, *_: object) -> None:
        self.count += 1
        if self.count > 1:
            remark("stopping the session" if self.stops else "detached; the agent goes on")
            raise KeyboardInterrupt
        again = "stop the session" if self.stops else "leave it running"
        remark(f"cancelling the turn; press Ctrl-C again to {again}")
        self.cancel()

    def cancel(self, **times: float) -> bool:
        """End our own turn, or take our prompt out of the queue; never anyone else's.

        Return False if the keeper does not respond. `times` are those of `client.call`.
        """
        try:
            if not self.started:
                client.call(self.session, "queue", input_id=self.receipt["input_id"], **times)
                return True
        except KeeperNotResponding:
            return False
        except AghError:
            pass  # it has just started
        try:
            client.call(self.session, "cancel", turn_id=self.receipt["turn_id"], **times)
        except KeeperNotResponding:
            return False
        except AghError:
            pass  # it has just ended: its end is about to be shown
        return True
