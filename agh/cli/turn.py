"""Sending a prompt and showing its turn. The turn is read from the log: what is shown is on disk."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from agh.cli.ask import answer_early, answer_outside_turns, can_ask, take_request
from agh.cli.look.turn_view import View, tell_restored, view_for
from agh.console.output import remark, starting
from agh.core.events import MARKER_CREATED, TURN_END_TYPES, Row
from agh.core.named_tuple import NamedTuple
from agh.core.refusal import Refusal, RefusalTracker
from agh.errors import (
    AghError,
    KeeperDied,
    KeeperNotResponding,
    PromptDropped,
    SessionLimited,
    TimedOut,
)
from agh.home import Session
from agh.keeper import client
from agh.sessions.prompt import send
from agh.store.catch_up import await_metadata
from agh.store.follow import follow
from agh.store.reader import EVERYTHING
from agh.store.views import session_view

INTERRUPTED = 130
LAST_WAIT = 5.0  # seconds for a turn cancelled at its timeout to show its end
RING_AFTER = 1.0  # seconds; a shorter turn rings no bell, and so needs no settings
OnRow = Callable[[Row, View], bool]
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
    session: Session,
    prompt: list[dict[str, Any]],
    *,
    refuse: bool = False,
    watched: bool = True,
    **args: Any,
) -> dict[str, Any]:
    """Queue a prompt, say so if the session had to be started for it, and return the keeper's receipt.

    `refuse` refuses what the agent asks for while it starts. `watched` is whether the turn will be shown.
    """
    args["attended"] = watched and not refuse and can_ask()
    with starting(session) as spinner:
        on_request = spinner.aside(partial(answer_early, refuse))
        receipt, started = send(session, prompt, on_request=on_request, **args)
    if started is not None and not started.get("queued"):
        tell_restored(started)
    return receipt


def show_turn(
    session: Session,
    receipt: dict[str, Any],
    output: str,
    limit: TimeLimit | None = None,
    *,
    refuse: bool = False,
    stops: bool = False,
    wait: bool = False,
    on_row: OnRow | None = None,
) -> int:
    """Show a turn until it ends, and return the command's exit number.

    Ctrl-C cancels the turn; a second one ends the command, which then `stops` the session or leaves the turn
    running. `refuse` refuses the agent's requests for permission and declines its questions at once instead
    of asking. `wait` leaves out the document of a turn that met a usage limit. With `on_row`, other turns are
    shown too: it gets each row first, and returns False to hide it.
    """
    with Presses(
        session, receipt, stops=stops
    ) as presses:  # first of all: from here on Ctrl-C is about the turn
        metadata = session_view(session)
        activity = metadata.get("activity") or {}
        if activity.get("pending_permissions") or activity.get("pending_questions"):
            answer_outside_turns(session, refuse)
        view = view_for(output, metadata)
        view.waits = wait
        outcome = _watch_turn(session, receipt, view, presses, limit or TimeLimit(None), refuse, on_row)
    return exit_code(outcome, session, receipt["input_id"])


def show_turns(
    session: Session,
    receipt: dict[str, Any],
    output: str,
    limit: TimeLimit | None = None,
    *,
    wait: bool = False,
    **options: Any,
) -> int:
    """Show the turn of a prompt. With `wait`, also those after a usage limit, until the prompt is done.

    Raise SessionLimited if the prompt is parked, and nobody waits for it.
    """
    while True:
        if receipt["status"] != "queued" or not receipt.get("resumes_at"):
            try:
                return show_turn(session, receipt, output, limit, wait=wait, **options)
            except SessionLimited as error:
                parked = error
        else:
            from agh.cli.guide.turn_failure import limited

            parked = limited(session, receipt["resumes_at"])
        if not wait:
            raise parked
        from agh.sessions.parked.wait import await_turn

        remark(parked.message)
        receipt = await_turn(session, receipt["input_id"], limit.deadline if limit else None)


def _watch_turn(
    session: Session,
    receipt: dict[str, Any],
    view: View,
    presses: Presses,
    limit: TimeLimit,
    refuse: bool,
    on_row: OnRow | None,
) -> Outcome:
    turn_id, deadline = receipt["turn_id"], limit.deadline
    late: AghError = _timed_out(session, limit.seconds)
    timed_out, tracker, start = False, RefusalTracker(turn_id), time.monotonic()
    if receipt["status"] == "cancelled":
        raise PromptDropped(session.id)
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
                    late = KeeperNotResponding(session.id)
            for row in rows:
                if _is_drop(row, turn_id):
                    raise late if timed_out else PromptDropped(session.id)
                if not (on_row(row, view) if on_row else row.turn_id in (turn_id, "")):
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
                    await_metadata(session, row.sequence)
                    if silence and (elapsed := time.monotonic() - start) >= RING_AFTER:
                        _ring_for_end(session, row, elapsed)
                    if timed_out:
                        raise late
                    stop_reason = str(row.parsed().get("stop_reason") or "")
                    return Outcome(row, stop_reason, presses.count > 0, tracker.refusal(stop_reason))
            view.flush()
    from agh.cli.guide.turn_failure import retry_command
    from agh.keeper.failures import explain_end

    hint = retry_command(session, receipt["input_id"]) if presses.started else None
    raise explain_end(session, KeeperDied(session.id, hint=hint))


def _ring_for_end(session: Session, row: Row, elapsed: float) -> None:
    """Ring this terminal at the end of a turn, if the settings say so."""
    from agh.cli.inbox.ring import ring_for_row

    is_limited = row.parsed().get("stop_reason") == "limited"
    event = "limited" if is_limited else "failed" if row.type == "error" else "turn_end"
    ring_for_row(event, session, row, elapsed)


def _is_drop(row: Row, turn_id: str) -> bool:
    if row.type != MARKER_CREATED:
        return False
    content = row.parsed()
    return content.get("kind") == "prompt_dropped" and content.get("turn") == turn_id


def _timed_out(session: Session, seconds: float | None) -> TimedOut:
    return TimedOut("the turn", seconds or 0.0, hint=f"agh session recap {session.id}")


def exit_code(outcome: Outcome, session: Session, input_id: int) -> int:
    """Return 0 for a completed turn and 130 for one we cancelled; raise what says why it ended otherwise."""
    if outcome.stop_reason == "cancelled" and outcome.cancelled_by_us:
        return INTERRUPTED
    if outcome.stop_reason == "end_turn" and outcome.refusal is None:
        return 0
    from agh.cli.guide.turn_failure import failure_of

    raise failure_of(session, input_id, outcome.row.parsed(), outcome.refusal)


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
            remark("stopping the session" if self.stops else "detached; the agent keeps working")
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
