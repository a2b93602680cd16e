"""The search index: one SQLite file with full-text search, derived from the logs of all sessions.

Promises: what it says of a session is what the session's log says, up to the moment at which the search
began; a session that was deleted falls out; it can be removed or killed at any time and is built again
from where it was. One process writes it at a time; private like the home. It never writes a log.

A session is read again when the stamp of its events.db or of the WAL beside it has changed, and then from
its last prompt. A stamp that is younger than the clock's grain proves nothing and is not kept.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from agh.core.search import CLOSE, OPEN, Collector, Text
from agh.errors import DataDamaged, IndexFailed
from agh.home import cache_path, make_private_dir, sessions_path
from agh.store import lock, meta, sessions
from agh.store.reader import EVERYTHING, FILE, Reader, escaped

NAME, VERSION = "search.db", 1
COMMIT_AFTER = 1.0  # seconds of work that a kill may cost
GRAIN = 50_000_000  # nanoseconds in which a file may change without a new time
PATIENCE = 10.0  # seconds to wait for someone else who builds
BUSY = 10.0
OPTIMIZE_FROM = 100  # sessions read in one go

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
    behind, connection = False, None if rebuild else _look()
    if connection is None or any(_changes(connection)):
        if connection is not None:
            connection.close()
        behind = not _update(progress, rebuild)
        connection = _look()
        if connection is None:
            raise IndexFailed("another search is still building it" if behind else "it is not there")
    try:
        damaged = [said for (said,) in connection.execute("SELECT error FROM sessions WHERE error != ''")]
        return Found(_search(connection, query), damaged, behind)
    finally:
        connection.close()


def _update(progress: Progress, rebuild: bool) -> bool:
    """Read what has changed; False when someone else is at it and does not come to an end."""
    directory = cache_path()
    make_private_dir(directory)
    held, deadline = lock.take(directory), time.monotonic() + PATIENCE
    while held is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
        held = lock.take(directory)
    with held:
        _build(_path(), progress, rebuild)
    return True


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


def _path() -> str:
    return os.path.join(cache_path(), NAME)


def _look() -> sqlite3.Connection | None:
    """The index for reading; None when there is none that can be used."""
    path = _path()
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


def _changes(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """The sessions to read, and those that are gone."""
    known = dict(connection.execute("SELECT id, stamp FROM sessions"))
    base, present = sessions_path(), sessions.session_ids()
    stale = [one for one in present if known.get(one) != _stamp(f"{base}/{one}/{FILE}")[0]]
    return stale, list(known.keys() - set(present))


def _stamp(path: str) -> tuple[str, int]:
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


def _build(path: str, progress: Progress, rebuild: bool) -> None:
    usable = None if rebuild else _look()
    if usable is None:
        _create(path)
    else:
        usable.close()
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY)
    try:
        # A transaction that outgrows the cache would lock readers out until it ends.
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA cache_spill = OFF")
        stale, gone = _changes(connection)
        connection.execute("BEGIN IMMEDIATE")
        for session_id in gone:
            _forget(connection, session_id)
        committed = time.monotonic()
        for session_id in progress(stale, len(stale)):
            for _ in _read(connection, session_id):
                if time.monotonic() - committed > COMMIT_AFTER:
                    connection.execute("COMMIT")
                    connection.execute("BEGIN IMMEDIATE")
                    committed = time.monotonic()
        connection.execute("COMMIT")
        if len(stale) >= OPTIMIZE_FROM:
            connection.execute("INSERT INTO texts_fts(texts_fts) VALUES ('optimize')")
    finally:
        connection.close()


def _read(connection: sqlite3.Connection, session_id: str) -> Iterator[None]:
    """Bring one session up to date; wherever it yields, what is written may be committed."""
    directory = f"{sessions_path()}/{session_id}"
    looked = time.time_ns()
    stamp, changed = _stamp(f"{directory}/{FILE}")
    connection.execute("INSERT OR IGNORE INTO sessions (id, stamp, start) VALUES (?, '', 1)", [session_id])
    sql = "SELECT number, start FROM sessions WHERE id = ?"
    number, start = connection.execute(sql, [session_id]).fetchone()
    collector, error = Collector(start), ""
    connection.execute("DELETE FROM texts WHERE session = ? AND sequence >= ?", [number, start])
    try:
        workspace = meta.read(directory).get("workspace_path")
        connection.execute("UPDATE sessions SET workspace_path = ? WHERE number = ?", [workspace, number])
        with Reader(directory) as reader:
            if reader.last_sequence() < start - 1:  # not the log it was
                connection.execute("DELETE FROM texts WHERE session = ?", [number])
                collector, start = Collector(), 1
            for page in reader.pages(EVERYTHING, start - 1):
                _add(connection, number, collector.feed(page))
                _hide(connection, number, collector.hidden)
                connection.execute(
                    "UPDATE sessions SET start = ?, stamp = '' WHERE number = ?", [collector.start, number]
                )
                yield
        _add(connection, number, collector.finish())
    except DataDamaged as damage:
        error = damage.message
    kept = stamp if looked - changed > GRAIN else ""
    connection.execute(
        "UPDATE sessions SET start = ?, stamp = ?, error = ? WHERE number = ?",
        [collector.start, kept, error, number],
    )
    yield


def _add(connection: sqlite3.Connection, number: int, texts: list[Text]) -> None:
    connection.executemany(
        "INSERT INTO texts (session, sequence, turn_id, role, timestamp, text) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, *text) for text in texts),
    )


def _hide(connection: sqlite3.Connection, number: int, sequences: list[int]) -> None:
    connection.executemany(
        "DELETE FROM texts WHERE session = ? AND sequence = ?", [(number, one) for one in sequences]
    )
    sequences.clear()


def _forget(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute(
        "DELETE FROM texts WHERE session = (SELECT number FROM sessions WHERE id = ?)", [session_id]
    )
    connection.execute("DELETE FROM sessions WHERE id = ?", [session_id])


def _create(path: str) -> None:
    """An empty index. It appears under its name only when it is complete; the old one is gone first."""
    from sqlite_utils import Database

    fresh = path + ".new"
    for leftover in (path, path + "-journal", fresh, fresh + "-journal"):
        if os.path.lexists(leftover):
            os.unlink(leftover)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        db = Database(connection, execute_plugins=False)
        kinds: dict[str, type] = {"number": int, "id": str, "stamp": str, "start": int}
        known = db.table("sessions").create(
            kinds | {"workspace_path": str, "error": str}, pk="number", defaults={"error": ""}
        )
        known.create_index(["id"], unique=True)
        columns: dict[str, type] = {"number": int, "session": int, "sequence": int}
        columns |= {"role": str, "timestamp": str, "turn_id": str, "text": str}  # the long one last
        texts = db.table("texts").create(columns, pk="number")
        texts.create_index(["session", "sequence"])
        texts.enable_fts(["text"], tokenize="unicode61 remove_diacritics 2", create_triggers=True)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    finally:
        connection.close()
    os.rename(fresh, path)
