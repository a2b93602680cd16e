"""Stopping and resuming many sessions, a few at a time. If that fails for one, the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from agh.core.status import KEEPER_VANISHED, LIVE_STATES
from agh.errors import AghError
from agh.home import Session, session_of
from agh.sessions.listing import select
from agh.sessions.start import ensure_live
from agh.sessions.stop import stop_session
from agh.store.views import View, list_views, session_view

AT_ONCE = 8


class Outcome(NamedTuple):
    """A session afterwards, or why that failed."""

    session: Session
    view: View | None
    error: AghError | None


def stop_all(*, kill: bool = False) -> Iterator[Outcome]:
    """Stop every live session."""
    live = [view for view in list_views() if view["state"] in LIVE_STATES]
    return _at_once(partial(stop_session, kill=kill), live)


def resume_all(*, state: str | None = None, badge: str | None = None) -> Iterator[Outcome]:
    """Make sessions live again: those in this state or with this badge, else those that a shutdown ended."""
    views = select(True, False, None, state, badge, None)
    chosen = views if state or badge else list(filter(was_shut_down, views))
    return _at_once(
        _resume, [view for view in chosen if view["state"] not in LIVE_STATES and not view.get("archived")]
    )


def was_shut_down(view: View) -> bool:
    """Tell whether a session was ended by a signal, a kill or a power cut, and not by its user."""
    return view.get("stop_reason") == "shutdown" or view.get("stop_detail") == KEEPER_VANISHED


def _resume(session: Session) -> View:
    ensure_live(session, waits_for_slot=False)
    return session_view(session)


def _at_once(act: Callable[[Session], View], views: list[View]) -> Iterator[Outcome]:
    """Yield the outcomes in the order of the views, as soon as each is there."""

    def try_it(session: Session) -> Outcome:
        try:
            return Outcome(session, act(session), None)
        except AghError as error:
            return Outcome(session, None, error)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(try_it, [session_of(view["id"]) for view in views])
