"""Stopping a session's agent."""

from __future__ import annotations

import time
from typing import Any

from agh.core.events import draft, timestamp
from agh.errors import AghError, KeeperDied, KeeperGone, KeeperNotResponding
from agh.home import Session
from agh.keeper import client
from agh.store import lock as locks
from agh.store import meta
from agh.store.lock import Lock
from agh.store.views import View, session_view

LIMIT = 30.0
LISTEN_WAIT = 0.05  # between two tries to reach a keeper that holds the session
KILLED = "its keeper did not answer and was killed"


def stop_session(session: Session, reason: str | None = None, *, kill: bool = False) -> View:
    """End the agent and return how the session is shown then.

    A session that is stopped already is no error; a keeper that is still starting is asked when it listens.
    With `kill`, a keeper that does not respond is killed.
    """
    try:
        if kill:
            client.answers(session)  # raises at once if the keeper is stuck
        return _stop(session, reason)
    except KeeperNotResponding:
        if not kill:
            raise
    return _kill(session)


def _stop(session: Session, reason: str | None) -> View:
    pid, deadline = None, time.monotonic() + LIMIT
    while pid is None:
        try:
            pid = client.call(session, "stop", limit=LIMIT, reason=reason)["pid"]
        except (KeeperGone, KeeperDied):
            if not locks.is_held(session):
                if meta.read(session).get("mirror"):
                    return _stop_mirrored(session, reason)
                from agh.sessions.repair import end_leftovers_of

                end_leftovers_of(session)
                return session_view(session)
            if not client.await_end(session, LISTEN_WAIT) and time.monotonic() > deadline:
                raise KeeperNotResponding(session.id) from None
    if not client.await_end(session, LIMIT, pid):
        raise KeeperNotResponding(session.id)
    return session_view(session)


def _stop_mirrored(session: Session, reason: str | None) -> View:
    """Stop a session that another machine keeps, though its mirror is not connected; pull what it missed."""
    from agh.sessions.start import ensure_live

    ensure_live(session, only_if_live=True)
    try:
        client.call(session, "stop", limit=LIMIT, reason=reason)
    except AghError as error:
        if error.code not in ("keeper_gone", "keeper_died"):  # it had stopped, there or here
            raise
    client.await_end(session, LIMIT)
    return session_view(session)


def _kill(session: Session) -> View:
    """Kill the keeper, end what it leaves, close its log, and write that the session was stopped."""
    from agh.keeper.holder import kill_keeper

    if not kill_keeper(session) and locks.is_held(session):
        raise KeeperNotResponding(session.id, hint="agh doctor")
    client.await_end(session, LIMIT)
    lock = locks.take(session)
    if lock is None:  # another command was quicker
        raise KeeperNotResponding(session.id)
    with lock:
        _write_killed(lock)
    return session_view(session)


def _write_killed(lock: Lock) -> None:
    from agh.sessions.repair import repair_locked

    end = draft("session_stopped", stop_reason="user_canceled", text=KILLED, failure=None)
    repair_locked(lock, end=end)
    metadata: Any = meta.read(lock.session)
    metadata |= {
        "stop_reason": "user_canceled",
        "stop_detail": KILLED,
        "failure": None,
        "updated_at": timestamp(),
    }
    meta.write(lock.session, metadata)
