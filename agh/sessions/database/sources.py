"""Which sessions of the home have changed since the database was built."""

from __future__ import annotations

import os
import sqlite3

from agh.home import home_path, sessions_path
from agh.store import sessions
from agh.store.reader import FILE
from agh.store.search.index import log_stamp

_META = "meta.json"


def stamp(directory: str) -> tuple[str, int]:
    """Return a stamp that changes with the session, and the time of the last change in nanoseconds."""
    text, changed_at = log_stamp(os.path.join(directory, FILE))
    try:
        info = os.stat(os.path.join(directory, _META))
    except OSError:
        return f"{text}|-", changed_at
    return f"{text}|{info.st_ino}.{info.st_size}.{info.st_mtime_ns}", max(changed_at, info.st_mtime_ns)


def changes(connection: sqlite3.Connection) -> tuple[list[str], list[str], int]:
    """Return the ids of sessions to read again and of deleted ones, and how many are unchanged."""
    base, session_ids = sessions_path(), sessions.session_ids()
    stamps = dict(
        connection.execute("SELECT session_id, stamp FROM agh_sources WHERE home = ?", [home_path()])
    )
    stale = [
        session_id for session_id in session_ids if stamps.get(session_id) != stamp(f"{base}/{session_id}")[0]
    ]
    deleted = sorted(stamps.keys() - set(session_ids))
    return stale, deleted, len(session_ids) - len(stale)
