"""Building the search index. Promises: the index holds what the logs say; deleted sessions drop out; a
killed build continues where it stopped; one process builds at a time; the file is as private as the home.

A session is read again, from its last prompt, when the stamp of its events.db or its WAL has changed. A
stamp younger than the clock's resolution proves nothing, so it is not stored.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator

from agh.core.search import Collector, Text
from agh.errors import DataDamaged, EventsUnreadable, MetaInvalid
from agh.home import cache_path, make_private_dir, session_of
from agh.store import lock as locks
from agh.store import meta
from agh.store.reader import EVERYTHING, FILE, Reader
from agh.store.rows import insert
from agh.store.search.index import BUSY, VERSION, Progress, changes, index_path, log_stamp, open_index

COMMIT_AFTER = 1.0  # seconds of work that a kill can lose
GRAIN = 50_000_000  # nanoseconds within which a file can change without a new mtime
PATIENCE = 10.0  # seconds to wait for another process that is building
OPTIMIZE_FROM = 100  # sessions read in one build


def update(progress: Progress, rebuild: bool) -> bool:
    """Index what has changed. Return False if another process is still building after PATIENCE seconds."""
    directory = cache_path()
    make_private_dir(directory)
    os.chmod(directory, 0o700)
    lock, deadline = locks.take_directory(directory), time.monotonic() + PATIENCE
    while lock is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
        lock = locks.take_directory(directory)
    with lock:
        _build(index_path(), progress, rebuild)
    return True


def _build(path: str, progress: Progress, rebuild: bool) -> None:
    existing = None if rebuild else open_index()
    if existing is None:
        _create(path)
    else:
        existing.close()
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY)
    try:
        # A transaction that outgrows the cache would lock readers out until it ends.
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA cache_spill = OFF")
        stale, deleted = changes(connection)
        connection.execute("BEGIN IMMEDIATE")
        for session_id in deleted:
            _forget(connection, session_id)
        committed = time.monotonic()
        for session_id in progress(stale, len(stale)):
            for _ in _index_session(connection, session_id):
                if time.monotonic() - committed > COMMIT_AFTER:
                    connection.execute("COMMIT")
                    connection.execute("BEGIN IMMEDIATE")
                    committed = time.monotonic()
        connection.execute("COMMIT")
        if len(stale) >= OPTIMIZE_FROM:
            connection.execute("INSERT INTO texts_fts(texts_fts) VALUES ('optimize')")
    finally:
        connection.close()


def _index_session(connection: sqlite3.Connection, session_id: str) -> Iterator[None]:
    """Bring one session up to date. The caller may commit wherever this yields."""
    session = session_of(session_id)
    read_at = time.time_ns()
    stamp, changed_at = log_stamp(f"{session.directory}/{FILE}")
    insert(connection, "sessions", {"id": session_id, "start": 1}, "INSERT OR IGNORE")
    sql = "SELECT number, start, start_at FROM sessions WHERE id = ?"
    number, start, start_at = connection.execute(sql, [session_id]).fetchone()
    collector, error = Collector(start, start_at), ""
    try:
        workspace = meta.read(session).get("workspace_path")
        connection.execute("UPDATE sessions SET workspace_path = ? WHERE number = ?", [workspace, number])
        with Reader(session) as reader:
            first = reader.page(EVERYTHING, start - 1, start)
            if start > 1 and [row.timestamp for row in first] != [start_at]:  # another log than last time
                collector = Collector()
            sql = "DELETE FROM texts WHERE session = ? AND sequence >= ?"
            connection.execute(sql, [number, collector.start])
            for page in reader.pages(EVERYTHING, collector.start - 1):
                _add_texts(connection, number, collector.feed(page))
                _delete_texts(connection, number, collector.hidden)
                _save_position(connection, number, collector)
                yield
        _add_texts(connection, number, collector.finish())
    except DataDamaged as damage:
        error = damage.message
        connection.execute("DELETE FROM texts WHERE session = ?", [number])
        collector = Collector()
        if isinstance(damage, EventsUnreadable | MetaInvalid):
            stamp = ""  # this may go away without the log changing
    _save_position(connection, number, collector, stamp if read_at - changed_at > GRAIN else "", error)
    yield


def _save_position(
    connection: sqlite3.Connection, number: int, collector: Collector, stamp: str = "", error: str = ""
) -> None:
    """Record how far a session was read. Without a stamp it will be read again."""
    connection.execute(
        "UPDATE sessions SET start = ?, start_at = ?, stamp = ?, error = ? WHERE number = ?",
        [collector.start, collector.at, stamp, error, number],
    )


def _add_texts(connection: sqlite3.Connection, number: int, texts: list[Text]) -> None:
    connection.executemany(
        "INSERT INTO texts (session, sequence, turn_id, role, timestamp, text) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, *text) for text in texts),
    )


def _delete_texts(connection: sqlite3.Connection, number: int, sequences: list[int]) -> None:
    """Delete the texts of these events, and empty the list."""
    connection.executemany(
        "DELETE FROM texts WHERE session = ? AND sequence = ?", [(number, sequence) for sequence in sequences]
    )
    sequences.clear()


def _forget(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute(
        "DELETE FROM texts WHERE session = (SELECT number FROM sessions WHERE id = ?)", [session_id]
    )
    connection.execute("DELETE FROM sessions WHERE id = ?", [session_id])


def _create(path: str) -> None:
    """Create an empty index, deleting the old one first. It gets its name only when it is complete."""
    from sqlite_utils import Database

    unfinished = path + ".new"
    for leftover in (path, path + "-journal", unfinished, unfinished + "-journal"):
        if os.path.lexists(leftover):
            os.unlink(leftover)
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(unfinished, isolation_level=None)
    try:
        db = Database(connection, execute_plugins=False)
        session_columns: dict[str, type] = {"number": int, "id": str, "stamp": str, "start": int}
        session_columns |= {"start_at": str, "workspace_path": str, "error": str}
        sessions = db.table("sessions").create(
            session_columns,
            pk="number",
            defaults={"stamp": "", "start_at": "", "error": ""},
        )
        sessions.create_index(["id"], unique=True)
        text_columns: dict[str, type] = {"number": int, "session": int, "sequence": int}
        text_columns |= {"role": str, "timestamp": str, "turn_id": str, "text": str}  # the long one last
        texts = db.table("texts").create(text_columns, pk="number")
        texts.create_index(["session", "sequence"])
        texts.enable_fts(["text"], tokenize="unicode61 remove_diacritics 2", create_triggers=True)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    finally:
        connection.close()
    os.rename(unfinished, path)
