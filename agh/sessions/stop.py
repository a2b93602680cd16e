"""Stopping a session's agent."""

from __future__ import annotations

import time

from agh.errors import KeeperDied, KeeperGone, TimedOut
from agh.home import Session
from agh.keeper import client
from agh.store import lock as locks
from agh.store.views import View, session_view

LIMIT = 30.0
LISTEN_WAIT = 0.05  # between two tries to reach a keeper that holds the session


def stop_session(session: Session, reason: str | None = None) -> View:
    """End the agent and return how the session is shown then.

    A session that is stopped already is no error; a keeper that is still starting is asked when it listens.
    """
    pid, deadline = None, time.monotonic() + LIMIT
    while pid is None:
        try:
            pid = client.call(session, "stop", limit=LIMIT, reason=reason)["pid"]
        except (KeeperGone, KeeperDied):
            if not locks.is_held(session):
                from agh.sessions.repair import end_leftovers_of

                end_leftovers_of(session)
                return session_view(session)
            if not client.await_end(session, LISTEN_WAIT) and time.monotonic() > deadline:
                raise TimedOut("the keeper", LIMIT) from None
    if not client.await_end(session, LIMIT, pid):
        raise TimedOut("the keeper", LIMIT)
    return session_view(session)
