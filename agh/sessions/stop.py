"""Stopping a session's agent."""

from __future__ import annotations

import os
import time
from typing import Any

from agh.core.events import draft, timestamp
from agh.errors import KeeperDied, KeeperGone, KeeperNotResponding
from agh.keeper import client
from agh.store import lock as locks
from agh.store import meta
from agh.store.lock import Lock
from agh.store.views import View, session_view

LIMIT = 30.0
LISTEN_WAIT = 0.05  # between two tries to reach a keeper that holds the session
KILLED = "its keeper did not answer and was killed"


def stop_session(directory: str, reason: str | None = None, *, kill: bool = False) -> View:
    """End the agent and return how the session is shown then.

    A session that is stopped already is no error; a keeper that is still starting is asked when it listens.
    With `kill`, a keeper that does not respond is killed.
    """
    try:
        if kill:
            client.answers(directory)  # raises at once if the keeper is stuck
        return _stop(directory, reason)
    except KeeperNotResponding:
        if not kill:
            raise
    return _kill(directory)


def _stop(directory: str, reason: str | None) -> View:
    pid, deadline = None, time.monotonic() + LIMIT
    while pid is None:
        try:
            pid = client.call(directory, "stop", limit=LIMIT, reason=reason)["pid"]
        except (KeeperGone, KeeperDied):
            if not locks.is_held(directory):
                from agh.sessions.repair import end_leftovers_of

                end_leftovers_of(directory)
                return session_view(directory)
            if not client.await_end(directory, LISTEN_WAIT) and time.monotonic() > deadline:
                raise KeeperNotResponding(os.path.basename(directory)) from None
    if not client.await_end(directory, LIMIT, pid):
        raise KeeperNotResponding(os.path.basename(directory))
    return session_view(directory)


def _kill(directory: str) -> View:
    """Kill the keeper, end what it leaves, close its log, and write that the session was stopped."""
    from agh.keeper.holder import kill_keeper

    if not kill_keeper(directory) and locks.is_held(directory):
        raise KeeperNotResponding(os.path.basename(directory), hint="agh doctor")
    client.await_end(directory, LIMIT)
    lock = locks.take(directory)
    if lock is None:  # another command was quicker
        raise KeeperNotResponding(os.path.basename(directory))
    with lock:
        _write_killed(lock)
    return session_view(directory)


def _write_killed(lock: Lock) -> None:
    from agh.sessions.repair import repair_locked
    from agh.store.writer import Writer

    repair_locked(lock)
    metadata: Any = meta.read(lock.directory)
    with Writer(lock, metadata["agent_name"]) as writer:
        end = draft("session_stopped", stop_reason="user_canceled", text=KILLED, failure=None)
        writer.append([end])
        metadata |= {
            "stop_reason": "user_canceled",
            "stop_detail": KILLED,
            "failure": None,
            "last_sequence": writer.last_sequence,
            "updated_at": timestamp(),
        }
    meta.write(lock.directory, metadata)
