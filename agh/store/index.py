"""Searching: one SQLite file with full-text search, derived from the logs of all sessions.

Promises: an answer is what the logs say, up to the moment at which the search began; the index is written
only when one of them has changed, by `indexer`; it can be removed at any time. It never writes a log.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from agh.core.search import CLOSE, OPEN
from agh.errors import IndexFailed
from agh.home import cache_path, sessions_path
from agh.store import sessions
from agh.store.reader import FILE, escaped

NAME, VERSION = "search.db", 1
BUSY = 10.0

Progress = Callable[[Iterable[str], int], Iterator[str]]


class Query(NamedTuple):
    """Which texts: every condition that is given must hold. `workspaces` are the paths that count."""

    match: str
    roles: tuple[str, ...] = ()
    since: str | None = None
    workspaces: tuple[str, ...] | None = None
    limit: int = 20


class Match(NamedTuple):
    session_id: str
    sequence: int
    turn_id: str
    role: str
    timestamp: str
    snippet: str


class Found(NamedTuple):
    """The matches; which sessions could not be read; whether someone else is still building the index."""

    matches: list[Match]
    damaged: list[str]
    behind: bool


def silent(items: Iterable[str], total: int) -> Iterator[str]:
    yield from items


def find(query: Query, progress: Progress = silent, *, rebuild: bool = False) -> Found:
    """Bring the index up to date and ask it. A damaged one is built anew: it is only derived."""
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


def _find(query: Query, progress: Progress, rebuild: bool) -> Found:
    behind, connection = False, None if rebuild else look()
    if connection is None or any(changes(connection)):
        if connection is not None:
            connection.close()
        from agh.store.indexer import update

        behind = not update(progress, rebuild)
        connection = look()
        if connection is None:
            raise IndexFailed("another search is still building it" if behind else "it is not there")
    try:
        damaged = [said for (said,) in connection.execute("SELECT error FROM sessions WHERE error != ''")]
        return Found(_search(connection, query), damaged, behind)
    finally:
        connection.close()


def _search(connection: sqlite3.Connection, query: Query) -> list[Match]:
    """The newest matches first. The snippets are made only for what is shown."""
    terms, values = ["texts_fts MATCH ?"], [query.match]
    for column, chosen in (("t.role", query.roles), ("s.workspace_path", query.workspaces)):
        if chosen:
            terms.append(f"{column} IN ({','.join('?' * len(chosen))})")
            values += chosen
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
    # With the plus the words are looked up once and not once per row, which for a prefix is dear.
    snippets = dict(
        connection.execute(
            f"SELECT rowid, snippet(texts_fts, 0, '{OPEN}', '{CLOSE}', '…', 24) FROM texts_fts "
            f"WHERE texts_fts MATCH ? AND +rowid IN ({numbers})",
            [query.match],
        )
    )
    return [Match._make((*row[:5], snippets[row[5]])) for row in rows]


def path_of_index() -> str:
    return os.path.join(cache_path(), NAME)


def look() -> sqlite3.Connection | None:
    """The index for reading; None when there is none that can be used."""
    path = path_of_index()
    if not os.path.exists(path):
        return None
    connection = sqlite3.connect(
        f"file:{escaped(path)}?mode=ro", uri=True, isolation_level=None, timeout=BUSY
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
    """The sessions to read, and those that are gone."""
    known = dict(connection.execute("SELECT id, stamp FROM sessions"))
    base, present = sessions_path(), sessions.session_ids()
    stale = [one for one in present if known.get(one) != stamp_of(f"{base}/{one}/{FILE}")[0]]
    return stale, list(known.keys() - set(present))


def stamp_of(path: str) -> tuple[str, int]:
    """What changes when a log is written, and when it last was, in nanoseconds."""
    found, newest = [], 0
    for name in (path, path + "-wal"):
        try:
            seen = os.stat(name)
        except OSError:
            continue
        found.append(f"{seen.st_ino}.{seen.st_size}.{seen.st_mtime_ns}")
        newest = max(newest, seen.st_mtime_ns)
    return "+".join(found) or "-", newest
