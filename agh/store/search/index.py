"""The search index: one SQLite file with full-text search, derived from the logs of all sessions.

Promises: results include everything in the logs when the search started; the index is written only when a
log has changed, by `indexer`; it can be deleted at any time. Never writes a log.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator

from agh.core.named_tuple import NamedTuple
from agh.core.search import CLOSE, OPEN
from agh.errors import IndexFailed
from agh.home import cache_path, sessions_path
from agh.store import sessions
from agh.store.reader import FILE, escape_uri_path

NAME, VERSION = "search.db", 1
BUSY = 10.0

Progress = Callable[[Iterable[str], int], Iterator[str]]


class Query(NamedTuple):
    """What to search for: a text must meet every condition. `workspaces` are paths."""

    match: str
    roles: tuple[str, ...] = ()
    since: str | None = None
    workspaces: tuple[str, ...] | None = None
    limit: int = 20


class Match(NamedTuple):
    """A text that matched, and where it is in its session."""

    session_id: str
    sequence: int
    turn_id: str
    role: str
    timestamp: str
    snippet: str


class Result(NamedTuple):
    """The matches, the errors of unreadable sessions, and whether the index is still being built."""

    matches: list[Match]
    damaged: list[str]
    behind: bool


def silent(session_ids: Iterable[str], total: int) -> Iterator[str]:
    """Show no progress."""
    yield from session_ids


def find(query: Query, progress: Progress = silent, *, rebuild: bool = False) -> Result:
    """Bring the index up to date and search it. Rebuild it if it is damaged."""
    try:
        try:
            return _find(query, progress, rebuild)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return _find(query, progress, True)
    except sqlite3.Error as error:
        raise IndexFailed(error) from error
    except OSError as error:
        raise IndexFailed(f"{error.filename}: {error.strerror}") from error


def _find(query: Query, progress: Progress, rebuild: bool) -> Result:
    behind, connection = False, None if rebuild else open_index()
    if connection is None or any(changes(connection)):
        if connection is not None:
            connection.close()
        from agh.store.search.indexer import update

        behind = not update(progress, rebuild)
        connection = open_index()
        if connection is None:
            if behind:
                raise IndexFailed("another search is still building it", hint="try again in a moment")
            raise IndexFailed("it does not exist")
    try:
        damaged = [error for (error,) in connection.execute("SELECT error FROM sessions WHERE error != ''")]
        return Result(_search(connection, query), damaged, behind)
    finally:
        connection.close()


def _search(connection: sqlite3.Connection, query: Query) -> list[Match]:
    """Return the newest matches first. Snippets are built only for the rows returned."""
    terms, values = ["texts_fts MATCH ?"], [query.match]
    for column, allowed in (("t.role", query.roles), ("s.workspace_path", query.workspaces)):
        if allowed:
            terms.append(f"{column} IN ({','.join('?' * len(allowed))})")
            values += allowed
    if query.since is not None:
        terms.append("t.timestamp >= ?")
        values.append(query.since)
    rows = connection.execute(
        "SELECT s.id, t.sequence, t.turn_id, t.role, t.timestamp, t.number FROM texts_fts "
        "JOIN texts AS t ON t.number = texts_fts.rowid JOIN sessions AS s ON s.number = t.session "
        f"WHERE {' AND '.join(terms)} ORDER BY t.timestamp DESC, t.number DESC LIMIT {query.limit}",
        values,
    ).fetchall()
    numbers = ",".join(str(number) for *_, number in rows)
    # The plus makes SQLite look the words up once, not once per row, which is slow for a prefix.
    snippets = dict(
        connection.execute(
            f"SELECT rowid, snippet(texts_fts, 0, '{OPEN}', '{CLOSE}', '…', 24) FROM texts_fts "
            f"WHERE texts_fts MATCH ? AND +rowid IN ({numbers})",
            [query.match],
        )
    )
    return [Match._make((*row[:5], snippets[row[5]])) for row in rows]


def index_path() -> str:
    """Return the path of the index, which need not exist."""
    return os.path.join(cache_path(), NAME)


def open_index() -> sqlite3.Connection | None:
    """Open the index for reading, or return None if there is no usable one."""
    path = index_path()
    if not os.path.exists(path):
        return None
    connection = sqlite3.connect(
        f"file:{escape_uri_path(path)}?mode=ro", uri=True, isolation_level=None, timeout=BUSY
    )
    try:
        if connection.execute("PRAGMA user_version").fetchone() == (VERSION,):
            connection.execute("SELECT 1 FROM sessions, texts, texts_fts LIMIT 0")
            return connection
    except sqlite3.Error:
        pass
    connection.close()
    return None


def changes(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """Return the ids of the sessions to read again, and of those that were deleted."""
    stamps = dict(connection.execute("SELECT id, stamp FROM sessions"))
    base, session_ids = sessions_path(), sessions.session_ids()
    stale = [
        session_id
        for session_id in session_ids
        if stamps.get(session_id) != log_stamp(f"{base}/{session_id}/{FILE}")[0]
    ]
    return stale, list(stamps.keys() - set(session_ids))


def log_stamp(path: str) -> tuple[str, int]:
    """Return a stamp that changes when the log is written, and the time of the last write in nanoseconds."""
    stamps, newest = [], 0
    for name in (path, path + "-wal"):
        try:
            info = os.stat(name)
        except OSError:
            continue
        stamps.append(f"{info.st_ino}.{info.st_size}.{info.st_mtime_ns}")
        newest = max(newest, info.st_mtime_ns)
    return "+".join(stamps) or "-", newest
