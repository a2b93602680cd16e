"""Building the search index. Promises: what it says of a session is what the session's log says; a session
that was deleted falls out; a build that is killed goes on where it was; one process builds at a time; the
file is private like the home.

A session is read again when the stamp of its events.db or of the WAL beside it has changed, and then from
its last prompt. A stamp that is younger than the clock's grain proves nothing and is not kept.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator

from agh.core.search import Collector, Text
from agh.errors import DataDamaged, EventsUnreadable, MetaInvalid
from agh.home import cache_path, make_private_dir, sessions_path
from agh.store import lock, meta
from agh.store.index import BUSY, VERSION, Progress, changes, look, path_of_index, stamp_of
from agh.store.reader import EVERYTHING, FILE, Reader

COMMIT_AFTER = 1.0  # seconds of work that a kill may cost
GRAIN = 50_000_000  # nanoseconds in which a file may change without a new time
PATIENCE = 10.0  # seconds to wait for someone else who builds
OPTIMIZE_FROM = 100  # sessions read in one go


def update(progress: Progress, rebuild: bool) -> bool:
    """Read what has changed; False when someone else is at it and does not come to an end."""
    directory = cache_path()
    make_private_dir(directory)
    os.chmod(directory, 0o700)
    held, deadline = lock.take(directory), time.monotonic() + PATIENCE
    while held is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
        held = lock.take(directory)
    with held:
        _build(path_of_index(), progress, rebuild)
    return True


def _build(path: str, progress: Progress, rebuild: bool) -> None:
    usable = None if rebuild else look()
    if usable is None:
        _create(path)
    else:
        usable.close()
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY)
    try:
        # A transaction that outgrows the cache would lock readers out until it ends.
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA cache_spill = OFF")
        stale, gone = changes(connection)
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
    stamp, changed = stamp_of(f"{directory}/{FILE}")
    connection.execute("INSERT OR IGNORE INTO sessions (id, start) VALUES (?, 1)", [session_id])
    sql = "SELECT number, start, start_at FROM sessions WHERE id = ?"
    number, start, start_at = connection.execute(sql, [session_id]).fetchone()
    collector, error = Collector(start, start_at), ""
    try:
        workspace = meta.read(directory).get("workspace_path")
        connection.execute("UPDATE sessions SET workspace_path = ? WHERE number = ?", [workspace, number])
        with Reader(directory) as reader:
            first = reader.page(EVERYTHING, start - 1, start)
            if start > 1 and [row.timestamp for row in first] != [start_at]:  # not the log it was
                collector = Collector()
            sql = "DELETE FROM texts WHERE session = ? AND sequence >= ?"
            connection.execute(sql, [number, collector.start])
            for page in reader.pages(EVERYTHING, collector.start - 1):
                _add(connection, number, collector.feed(page))
                _hide(connection, number, collector.hidden)
                _note(connection, number, collector)
                yield
        _add(connection, number, collector.finish())
    except DataDamaged as damage:
        error = damage.message
        connection.execute("DELETE FROM texts WHERE session = ?", [number])
        collector = Collector()
        if isinstance(damage, EventsUnreadable | MetaInvalid):
            stamp = ""  # it may pass without a change of the log
    _note(connection, number, collector, stamp if looked - changed > GRAIN else "", error)
    yield


def _note(
    connection: sqlite3.Connection, number: int, collector: Collector, stamp: str = "", error: str = ""
) -> None:
    """Up to where a session was read; with no stamp it will be looked at again."""
    connection.execute(
        "UPDATE sessions SET start = ?, start_at = ?, stamp = ?, error = ? WHERE number = ?",
        [collector.start, collector.at, stamp, error, number],
    )


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
        kinds: dict[str, type] = {"number": int, "id": str, "stamp": str, "start": int, "start_at": str}
        known = db.table("sessions").create(
            kinds | {"workspace_path": str, "error": str},
            pk="number",
            defaults={"stamp": "", "start_at": "", "error": ""},
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
