"""Stopping and resuming many sessions, a few at a time. If that fails for one, the others go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from agh.core.named_tuple import NamedTuple
from agh.core.status import KEEPER_VANISHED, LIVE_STATES
from agh.errors import AghError
from agh.home import Session, session_of
from agh.sessions.listing import select
from agh.sessions.start import ensure_live
from agh.sessions.stop import stop_session
from agh.store.views import View, list_briefs, session_view

AT_ONCE = 8


class Outcome(NamedTuple):
    """A session afterwards, or why that failed."""

    session: Session
    view: View | None
    error: AghError | None


def stop_all(*, kill: bool = False) -> Iterator[Outcome]:
    """Stop every live session."""
    live = [brief.id for brief in list_briefs() if brief.state in LIVE_STATES]
    return _at_once(partial(stop_session, kill=kill), live)


def resume_all(*, state: str | None = None, badge: str | None = None) -> Iterator[Outcome]:
    """Make sessions of the last week live again.

    Those in this state or with this badge; without either, those that a shutdown ended. What is older is left
    alone: nobody waits for it, and there may be thousands.
    """
    views = select(False, False, None, state, badge, None)
    chosen = views if state or badge else list(filter(was_shut_down, views))
    return _at_once(_resume, [view["id"] for view in chosen if view["state"] not in LIVE_STATES])


def was_shut_down(view: View) -> bool:
    """Tell whether a session was ended here by a signal, a kill or a power cut, and not by its user."""
    if view.get("stop_reason") != "shutdown" and view.get("stop_detail") != KEEPER_VANISHED:
        return False
    return os.path.exists(os.path.join(session_of(view["id"]), "keeper.log"))  # else it was imported


def _resume(session: Session) -> View:
    ensure_live(session, waits_for_slot=False)
    return session_view(session)


def _at_once(act: Callable[[Session], View], ids: list[str]) -> Iterator[Outcome]:
    """Yield the outcomes as they come. If the caller stops asking, what has not begun is not begun."""

    def try_it(session: Session) -> Outcome:
        try:
            return Outcome(session, act(session), None)
        except (AghError, OSError) as error:
            return Outcome(session, None, _explain(error))

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        for future in as_completed([pool.submit(try_it, session_of(session_id)) for session_id in ids]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _explain(error: AghError | OSError) -> AghError:
    """Return what the system lacked; raise what is not the system's failure."""
    if isinstance(error, AghError):
        return error
    from agh.keeper.failures import explain

    cause = explain(error)
    if cause is None:
        raise error
    return cause
