"""Only the holder of the lock writes; a batch is there whole or not at all; what was acknowledged stays."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import Draft, Row
from agh.errors import AghError, Bug, EventsMissing, SessionBusy, StoreFailed
from agh.home import Session
from agh.store import lock, writer
from agh.store.create import create_log
from agh.store.reader import Reader
from agh.store.writer import Writer
from tests.support.build import Home, child, conversation, rows, says, take_lock, user

pytestmark = pytest.mark.timeout(90)

# Fills the disk: no file of this process can grow beyond the limit. Then the disk is emptied again.
FULL = """
import resource, sys
from pathlib import Path
from agh.errors import StoreFailed
from tests.support.build import Writer, take_lock, says
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
log = Writer(take_lock(Path(sys.argv[1])), "general")
try:
    while True:
        log.append([says("x" * 3000) for _ in range(10)])
        print(log.last_sequence, flush=True)
except StoreFailed as error:
    print("failed", log.last_sequence, log.connection.in_transaction, flush=True)
    sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append([says("after")])
print(log.last_sequence, flush=True)
log.close()
"""
OPENS_WHEN_FULL = """
import resource, sys
from pathlib import Path
from agh.errors import StoreFailed
from agh.store import writer
from agh.store.create import create_log
from tests.support.build import take_lock
owner = take_lock(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    if sys.argv[2] == "create":
        create_log(owner)
    else:
        writer.Writer(owner, "general").append([])
except Exception as error:
    print(type(error).__name__, flush=True)
"""


def _read(directory: Path) -> list[Row]:
    with Reader(Session.at(directory)) as reader:
        return list(reader.rows())


def test_what_is_appended_is_given_back_and_stored(home: Home) -> None:
    directory = home.session()
    drafts = conversation()
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        assert log.last_sequence == 0
        assert log.append(drafts[:4]) == rows(drafts[:4])
        assert log.append(iter(drafts[4:])) == rows(drafts[4:], 5)
        assert log.append([]) == []
        assert log.last_sequence == len(drafts)
        assert _read(directory) == rows(drafts), "a reader sees it before the writer closes"
    assert _read(directory) == rows(drafts)
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        assert log.last_sequence == len(drafts)


def test_no_lock_no_writer(home: Home) -> None:
    directory = home.session()
    owner = take_lock(directory)
    owner.release()
    with pytest.raises(SessionBusy):
        Writer(owner, "general")
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([user("a")])
        owner.release()
        for write in (lambda: log.append([user("b")]), lambda: log.transaction().__enter__()):
            with pytest.raises(Bug):
                write()
    assert len(_read(directory)) == 1


def test_a_writer_keeps_the_lock_with_its_owner(home: Home) -> None:
    directory = home.session()
    with take_lock(directory) as owner:
        Writer(owner, "general").close()
        assert lock.is_held(Session.at(directory))


def test_every_commit_is_synced(home: Home) -> None:
    with take_lock(home.session()) as owner, Writer(owner, "general") as log:
        assert log.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert log.connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Draft("done", "t", None, ""), StoreFailed),  # type: ignore[arg-type]
        (Draft("done", None, "{}", ""), StoreFailed),  # type: ignore[arg-type]
        (Draft("done", "t", "\ud800", ""), UnicodeEncodeError),
    ],
)
def test_a_bad_draft_takes_its_batch_with_it(home: Home, bad: Draft, error: type[Exception]) -> None:
    directory = home.session([user("a")])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        with pytest.raises(error):
            log.append([user("b"), bad, user("c")])
        assert log.last_sequence == 1 and not log.connection.in_transaction
        assert [row.sequence for row in _read(directory)] == [1]
        assert [row.sequence for row in log.append([user("d")])] == [2]
    assert [row.parsed()["text"] for row in _read(directory)] == ["a", "d"]


def test_a_transaction_is_whole_or_not_at_all(home: Home) -> None:
    directory = home.session()
    usage = "INSERT INTO token_usage (turn_id, timestamp) VALUES ('turn-1', '')"
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        with log.transaction() as connection:
            log.append([user("a")])
            connection.execute(usage)
            log.append([user("b")])
            assert _read(directory) == [], "nothing is seen before the end"
        assert log.last_sequence == 2
        with pytest.raises(StoreFailed), log.transaction() as connection:
            log.append([user("c")])
            connection.execute(usage)
        with pytest.raises(KeyboardInterrupt), log.transaction() as connection:
            log.append([user("d")])
            raise KeyboardInterrupt
        assert log.last_sequence == 2 and not log.connection.in_transaction
        log.append([user("e")])
    assert [row.parsed()["text"] for row in _read(directory)] == ["a", "b", "e"]


def test_a_failure_to_commit_is_a_failure_to_store(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = home.session()

    class FullDisk(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> Any:
            if sql == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *args)

    with take_lock(directory) as owner, Writer(owner, "general") as log:
        sound, log.connection = (
            log.connection,
            sqlite3.connect(directory / "events.db", factory=FullDisk, isolation_level=None),
        )
        with pytest.raises(StoreFailed, match="disk is full"):
            log.append([user("a")])
        assert log.last_sequence == 0 and not log.connection.in_transaction
        log.connection.close()
        log.connection = sound
        log.append([user("b")])
    assert [row.parsed()["text"] for row in _read(directory)] == ["b"]


def test_all_files_are_private(home: Home) -> None:
    directory = home.directory()
    before = os.umask(0)
    try:
        with take_lock(directory) as owner:
            create_log(owner)
            with Writer(owner, "general") as log:
                log.append(conversation())
                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    finally:
        os.umask(before)
    assert {"events.db", "events.db-wal", "events.db-shm", "lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_closing_folds_the_wal_into_the_log(home: Home) -> None:
    directory = home.session(conversation())
    assert sorted(path.name for path in directory.iterdir()) == ["events.db", "lock", "meta.json"]


def test_a_new_log_appears_complete_or_not_at_all(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = home.directory()
    for name in ("events.db.new", "events.db.new-wal", "events.db.new-journal"):
        (directory / name).write_text("left by a creator that was killed")
    with take_lock(directory) as owner:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(writer.schema, "create", _interrupt)
            create_log(owner)
        with pytest.raises(EventsMissing):
            Writer(owner, "general")
        create_log(owner)
        assert sorted(path.name for path in directory.iterdir()) == ["events.db", "lock", "meta.json"]
        Writer(owner, "general").close()


def _interrupt(connection: sqlite3.Connection) -> None:
    connection.close()
    raise KeyboardInterrupt


def test_creating_does_not_destroy(home: Home) -> None:
    directory = home.session(conversation())
    with take_lock(directory) as owner:
        with contextlib.suppress(AghError, OSError):
            create_log(owner)
        assert len(_read(directory)) == len(conversation())


def test_a_full_disk_is_said_and_nothing_is_half_written(home: Home) -> None:
    directory = home.session()
    with child(FULL, directory) as writer_process:
        assert writer_process.stdin is not None and writer_process.stdout is not None
        acknowledged = 0
        for line in writer_process.stdout:
            if line.startswith("failed"):
                break
            acknowledged = int(line)
        assert acknowledged > 0
        assert line.split() == ["failed", str(acknowledged), "False"]
        assert [row.sequence for row in _read(directory)] == list(range(1, acknowledged + 1))
        writer_process.stdin.write("\n")
        writer_process.stdin.flush()
        assert int(writer_process.stdout.readline()) == acknowledged + 1
        assert writer_process.wait(10) == 0
    assert [row.sequence for row in _read(directory)] == list(range(1, acknowledged + 2))


@pytest.mark.parametrize("verb", ["create", "open"])
def test_a_disk_that_is_full_from_the_start(home: Home, verb: str) -> None:
    directory = home.directory() if verb == "create" else home.session([user("a")])
    with child(OPENS_WHEN_FULL, directory, verb) as process:
        said, _ = process.communicate(timeout=20)
    assert said == "StoreFailed\n"
    if verb == "open":
        assert len(_read(directory)) == 1


@pytest.mark.parametrize("kind", ["malformed", "no WAL possible"])
def test_a_log_that_cannot_be_written_is_refused_by_name(home: Home, kind: str) -> None:
    directory = home.session([says("x" * 500) for _ in range(100)])
    if kind == "malformed":
        with (directory / "events.db").open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * 20000)
    else:
        (directory / "events.db-wal").mkdir()
    with take_lock(directory) as owner, pytest.raises(AghError):
        Writer(owner, "general")


def test_long_content_is_stored_from_its_pieces(home: Home) -> None:
    """In order with what stands around it, as text; and the list that it came in is emptied."""
    text = '{"text":"%s\u20ac"}' % ("x" * 3_000_000)
    pieces = (text[:9].encode(), memoryview(text.encode())[9:])
    long = Draft("agent_message", "turn-1", "", "2026-04-16T01:00:00.000Z", pieces)
    directory = home.session()
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        drafts = [user("a"), long, long, says("b"), long]
        log.store(drafts)
        assert drafts == [] and log.last_sequence == 5
        assert [row.content for row in log.append([long])] == [text]
        types = log.connection.execute("SELECT DISTINCT typeof(content) FROM events").fetchall()
        assert types == [("text",)]
    with Reader(Session.at(directory)) as reader:
        stored = list(reader.rows())
    assert [row.sequence for row in stored] == [1, 2, 3, 4, 5, 6]
    assert [row.content == text for row in stored] == [False, True, True, False, True, True]


def test_a_refused_long_content_leaves_nothing_behind(home: Home) -> None:
    pieces = (b'{"text":"', b"x" * 2_000_000, b'"}')
    directory = home.session()
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        bad = Draft("agent_message", None, "", "2026-04-16T01:00:00.000Z", pieces)  # type: ignore[arg-type]
        with pytest.raises(StoreFailed):
            log.store([user("a"), bad])
        assert log.last_sequence == 0
        assert [row.sequence for row in log.append([user("b")])] == [1]
