"""Reading changes nothing on disk, sees every committed row, and calls each kind of damage by its name."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import Row, draft, envelopes, joined_envelopes
from agh.errors import (
    AghError,
    EventsDamaged,
    EventsEmpty,
    EventsMissing,
    EventsNewer,
    EventsNotADatabase,
    EventsNotAFile,
    EventsUnreadable,
    Usage,
)
from agh.home import Session
from agh.store import reader as reading
from agh.store.reader import EVERYTHING, Query, Reader
from agh.store.writer import Writer
from tests.support.build import Home, calls, child, conversation, finishes, says, take_lock, user
from tests.support.files import tree

# Appends two events to a log and dies without closing it: the rows are in the WAL only.
DIES_WRITING = """
import os, sys
from pathlib import Path
from tests.support.build import Writer, take_lock, user
log = Writer(take_lock(Path(sys.argv[1])), "general")
log.append([user("one"), user("two")])
os._exit(0)
"""
# A newer agh brings the log up and dies: its version is in the WAL only.
NEWER = """
import os, sqlite3, sys
sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version = 99")
os._exit(0)
"""


def _read(directory: Path, query: Query = EVERYTHING) -> list[Row]:
    with Reader(Session.at(directory)) as reader:
        return list(reader.rows(query))


def _lines(rows: list[Row]) -> bytes:
    return "".join(f"{line}\n" for line in envelopes(rows, "s", None, None)).encode()


def _dump(directory: Path, query: Query = EVERYTHING) -> bytes:
    splice = partial(joined_envelopes, envelope_of=("s", None, None), plain=set())
    with Reader(Session.at(directory)) as reader:
        return b"".join(reader.spliced(splice, query))


def _hot(directory: Path) -> Path:
    with child(DIES_WRITING, directory) as writer:
        assert writer.wait(20) == 0
    assert (directory / "events.db-wal").stat().st_size > 0
    return directory


def _big(home: Home) -> Path:
    return home.session([says("x" * 500) for _ in range(400)])


def test_rows_come_back_as_they_were_stored(home: Home) -> None:
    drafts = conversation()
    rows = _read(home.session(drafts))
    assert [row.sequence for row in rows] == list(range(1, len(drafts) + 1))
    assert [(row.type, row.turn_id, row.content, row.timestamp) for row in rows] == [
        tuple(one) for one in _fields(drafts)
    ]
    assert {row.agent_name for row in rows} == {"general"}


def _fields(drafts: list[Any]) -> list[tuple[str, str, str, str]]:
    return [(draft.type, draft.turn_id, draft.content, draft.timestamp) for draft in drafts]


def test_reading_a_stopped_session_changes_nothing(home: Home) -> None:
    directory = home.session(conversation())
    before = tree(home.path)
    with Reader(Session.at(directory)) as reader:
        list(reader.rows())
        reader.newest(EVERYTHING, 3)
        reader.snapshot(lambda: (reader.last_sequence(), list(reader.rows())))
        reader.fetch("SELECT * FROM permissions")
        with pytest.raises(Usage):
            reader.newest(Query(where="nonsense"), 1)
        assert tree(home.path) == before
    assert tree(home.path) == before


def test_nothing_can_be_written_through_a_reader(home: Home) -> None:
    for directory in (home.session(conversation()), _hot(home.session([user("zero")]))):
        with Reader(Session.at(directory)) as reader, pytest.raises((AghError, sqlite3.Error)):
            reader.fetch("INSERT INTO token_usage (turn_id, timestamp) VALUES ('t', '')")


def test_a_hot_wal_is_read(home: Home) -> None:
    directory = _hot(home.session([user("zero")]))
    main, wal = (directory / "events.db").read_bytes(), (directory / "events.db-wal").read_bytes()
    assert [row.parsed()["text"] for row in _read(directory)] == ["zero", "one", "two"]
    assert (directory / "events.db").read_bytes() == main
    assert (directory / "events.db-wal").read_bytes() == wal


def test_a_hot_wal_without_its_index_is_read(home: Home) -> None:
    """A log that was copied without its -shm: SQLite makes that one file again, and no other."""
    directory = _hot(home.session([user("zero")]))
    before = tree(directory)
    (directory / "events.db-shm").unlink()
    assert [row.parsed()["text"] for row in _read(directory)] == ["zero", "one", "two"]
    after = tree(directory)
    for name in (".", "events.db-shm"):  # a new file changes its directory
        del before[name], after[name]
    assert after == before


def test_a_path_with_odd_characters(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = home.path.parent / "a b?c#d%41&mode=rw é"
    monkeypatch.setenv("AGH_HOME", str(odd))
    assert len(_read(Home(odd).session(conversation()))) == len(conversation())


def test_new_rows_are_seen_when_a_writer_comes(home: Home) -> None:
    directory = home.session([user("a")])
    with Reader(Session.at(directory)) as reader:
        assert reader.last_sequence() == 1
        with take_lock(directory) as owner, Writer(owner, "general") as log:
            log.append([user("b")])
            assert reader.last_sequence() == 2
            log.append([user("c")])
            assert [row.sequence for row in reader.rows()] == [1, 2, 3]
        assert reader.last_sequence() == 3


def test_new_rows_are_seen_when_a_writer_has_come_and_gone(home: Home) -> None:
    directory = home.session([user("a")])
    with Reader(Session.at(directory)) as reader:
        assert reader.last_sequence() == 1
        for number in range(2, 5):
            with take_lock(directory) as owner, Writer(owner, "general") as log:
                log.append([user("b")])
            assert reader.last_sequence() == number
            assert len(reader.newest(EVERYTHING, 10)) == number


def test_a_writer_that_goes_while_the_header_is_read_is_no_damage(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is looked at first: then the WAL is folded in, so the header tells of more pages."""
    directory = home.session(conversation())
    look = os.lstat
    with take_lock(directory) as owner:
        log = Writer(owner, "general")
        log.append([user("x" * 100_000, turn="turn-9")])

        def look_and_close(path: str) -> os.stat_result:
            found = look(path)
            log.close()
            return found

        monkeypatch.setattr(reading.os, "lstat", look_and_close)
        with Reader(Session.at(directory)) as reader:
            assert len(reader.newest(EVERYTHING, 1)[0].content) > 100_000


def test_a_snapshot_is_one_moment(home: Home) -> None:
    directory = home.session([user("a")])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([user("b")])
        with Reader(Session.at(directory)) as reader:

            def read() -> tuple[int, int]:
                first = reader.last_sequence()
                log.append([user("c")])
                return first, reader.snapshot(lambda: len(list(reader.rows())))

            assert reader.snapshot(read) == (2, 2)
            assert reader.last_sequence() == 3


@pytest.mark.parametrize("gone_again", [False, True])
def test_a_snapshot_is_one_moment_even_if_a_writer_comes(home: Home, gone_again: bool) -> None:
    directory = home.session([user("a")])
    writers: list[Writer] = []
    with Reader(Session.at(directory)) as reader:

        def read() -> tuple[int, int]:
            first = reader.last_sequence()
            if not writers:
                writers.append(Writer(take_lock(directory), "general"))
                writers[0].append([user("b")])
                if gone_again:
                    writers[0].close()
            return first, reader.last_sequence()

        try:
            first, second = reader.snapshot(read)
        finally:
            writers[0].close()
            writers[0].lock.release()
    assert first == second


def test_newest_is_ascending(home: Home) -> None:
    directory = home.session([says(str(number)) for number in range(10)])
    with Reader(Session.at(directory)) as reader:
        assert [row.sequence for row in reader.newest(EVERYTHING, 3)] == [8, 9, 10]
        assert [row.sequence for row in reader.newest(EVERYTHING, 99)] == list(range(1, 11))
        assert [row.sequence for row in reader.newest(EVERYTHING, 99, after=8)] == [9, 10]
        assert [row.sequence for row in reader.newest(Query(where="sequence % 3 = 0"), 2)] == [6, 9]
        assert reader.newest(EVERYTHING, 0) == []


@pytest.fixture
def mixed(home: Home) -> Path:
    directory = home.session(
        [
            user("a", at="2026-04-16T01:00:00.000Z"),
            calls("c", "Bash", at="2026-04-16T01:00:01.000Z"),
            finishes(at="2026-04-16T01:00:02.000Z"),
            user("b", turn="turn-2", at="2026-04-16T01:00:03.000Z"),
            draft("session_stopped", at="2026-04-16T01:00:04.000Z"),
        ]
    )
    with take_lock(directory) as owner, Writer(owner, "other") as log:
        log.append([says("it's", turn="turn-2", at="2026-04-16T01:00:05.000Z")])
    return directory


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), [1, 2, 3, 4, 5, 6]),
        (Query(types=("user_message",)), [1, 4]),
        (Query(types=("user_message", "done")), [1, 3, 4]),
        (Query(types=("plan",)), []),
        (Query(agent="other"), [6]),
        (Query(agent="x' OR '1'='1"), []),
        (Query(turn="turn-2"), [4, 6]),
        (Query(turn=""), [5]),
        (Query(since="2026-04-16T01:00:03.000Z"), [4, 5, 6]),
        (Query(where="content->>'$.tool_name' = 'Bash'"), [2]),
        (Query(where="id = 'evt-000003' OR sequence = 5"), [3, 5]),
        (Query(where="content->>'$.text' = 'it''s'"), [6]),
        (Query(where="type LIKE 'user%' -- a remark"), [1, 4]),
        (Query(where="1"), [1, 2, 3, 4, 5, 6]),
        (Query(where="NULL"), []),
        (Query(where="sequence = (SELECT max(sequence) FROM events)"), [6]),
        (
            Query(
                types=("user_message",), turn="turn-2", since="2026-04-16T01:00:01.000Z", where="sequence > 0"
            ),
            [4],
        ),
    ],
)
def test_every_filter(mixed: Path, query: Query, expected: list[int]) -> None:
    with Reader(Session.at(mixed)) as reader:
        assert [row.sequence for row in reader.rows(query)] == expected
        assert [row.sequence for row in reader.newest(query, 100)] == expected
        assert [row.sequence for row in reader.newest(query, 1)] == expected[-1:]
        assert [row.sequence for row in reader.rows(query, after=3)] == [
            item for item in expected if item > 3
        ]
        assert [row.sequence for row in reader.page(query, 1, 4)] == [
            item for item in expected if 1 < item <= 4
        ]


@pytest.mark.parametrize(
    "where",
    [
        "",
        " ",
        "nonsense",
        "type = 'x",
        "1; DROP TABLE events",
        "1) ; DELETE FROM events; --",
        "--",
        "?",
        ":name",
        "type IN",
        "nope(1)",
        "json_extract('{', '$')",
        "load_extension('x')",
        "abs(-9223372036854775808)",
        "EXISTS (DELETE FROM events)",
    ],
)
def test_a_where_that_does_not_work_is_a_usage_error(mixed: Path, where: str) -> None:
    before = tree(mixed)
    with Reader(Session.at(mixed)) as reader:
        for ask in (reader.rows, lambda query: reader.newest(query, 5)):
            with pytest.raises(Usage, match="--where: ") as refused:
                list(ask(Query(where=where)))
            assert "turn_id" in refused.value.hint
        assert reader.last_sequence() == 6, "the reader still reads"
    assert tree(mixed) == before


@pytest.mark.parametrize("where", ["1) OR (1", "1) /*"])
def test_a_where_cannot_break_out_of_its_brackets(mixed: Path, where: str) -> None:
    with Reader(Session.at(mixed)) as reader, pytest.raises(Usage):
        reader.page(Query(where=where), 1, 2)


def test_a_where_that_is_too_big_is_no_damage(mixed: Path) -> None:
    with Reader(Session.at(mixed)) as reader, pytest.raises(Usage):
        reader.page(Query(where="zeroblob(2000000000) IS NULL"), 0, 6)


def test_pages_are_bounded_by_rows_and_bytes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = home.session([says("x" * 1000) for _ in range(50)])
    monkeypatch.setattr(reading, "PAGE_BYTES", 5000)
    with Reader(Session.at(directory)) as reader:
        pages = list(reader.pages())
        assert [row.sequence for page in pages for row in page] == list(range(1, 51))
        assert {len(page) for page in pages[:-1]} == {5}
        assert [row.sequence for row in reader.page(EVERYTHING, 10, 50, limit=2)] == [11, 12]
        assert len(reader.newest(EVERYTHING, 50)) == 50


def test_a_row_larger_than_a_page_is_still_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE_BYTES", 10)
    directory = home.session([says("x" * 1000) for _ in range(3)])
    assert [row.sequence for row in _read(directory)] == [1, 2, 3]


def test_pages_of_a_thousand_rows(home: Home) -> None:
    directory = home.session([says("x") for _ in range(2500)])
    with Reader(Session.at(directory)) as reader:
        assert [len(page) for page in reader.pages()] == [1000, 1000, 500]
        assert [len(page) for page in reader.pages(after=2000)] == [500]


def test_a_page_is_not_held_open_while_it_is_printed(home: Home) -> None:
    directory = home.session([says("x" * 1000) for _ in range(1500)])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([says("y")])
        with Reader(Session.at(directory)) as reader:
            pages = reader.pages()
            next(pages)
            log.append([says("z")])
            assert log.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


DAMAGE: dict[str, tuple[Any, type[AghError]]] = {
    "missing": (lambda path: path.unlink(), EventsMissing),
    "empty": (lambda path: path.write_bytes(b""), EventsEmpty),
    "a short text": (lambda path: path.write_text("hello"), EventsNotADatabase),
    "a long text": (lambda path: path.write_text("hello " * 1000), EventsNotADatabase),
    "zeros": (lambda path: path.write_bytes(bytes(8192)), EventsNotADatabase),
    "a header only": (lambda path: os.truncate(path, 50), EventsNotADatabase),
    "cut to one page": (lambda path: os.truncate(path, 4096), EventsDamaged),
    "cut in a page": (lambda path: os.truncate(path, path.stat().st_size - 100), EventsDamaged),
    "pages overwritten": (lambda path: _overwrite(path, 4096, 20000), EventsDamaged),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), EventsNotAFile),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), EventsNotAFile),
    "a link": (lambda path: (path.rename(path.with_name("other")), path.symlink_to("other")), EventsNotAFile),
    "another program's": (lambda path: _pragma(path, "application_id = 7"), EventsNotADatabase),
    "a newer one": (lambda path: _pragma(path, "user_version = 99"), EventsNewer),
    "a directory as its WAL": (lambda path: path.with_name("events.db-wal").mkdir(), EventsUnreadable),
}


def _overwrite(path: Path, start: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * size)


def _pragma(path: Path, setting: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {setting}")
    connection.close()


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_damage_has_its_name_and_is_left_as_it_is(home: Home, kind: str) -> None:
    damage, error = DAMAGE[kind]
    directory = _big(home)
    damage(directory / "events.db")
    before = tree(directory)
    with pytest.raises(error) as refused:
        _read(directory)
    assert type(refused.value) is error
    assert directory.name in refused.value.message
    assert refused.value.exit == 8
    assert tree(directory) == before


def test_a_newer_version_in_the_wal_is_refused(home: Home) -> None:
    directory = home.session([user("a")])
    with child(NEWER, directory / "events.db") as newer:
        assert newer.wait(20) == 0
    with pytest.raises(EventsNewer):
        _read(directory)


def test_a_log_that_goes_away_while_it_is_open_is_missing(home: Home) -> None:
    directory = home.session([user("a")])
    with Reader(Session.at(directory)) as reader:
        assert reader.last_sequence() == 1
        shutil.rmtree(directory)
        with pytest.raises(EventsMissing):
            reader.last_sequence()


def test_text_that_is_not_utf8_is_damage(home: Home) -> None:
    directory = home.session([user("hello world")])
    path = directory / "events.db"
    path.write_bytes(path.read_bytes().replace(b"hello world", b"hello w\xffrld"))
    with pytest.raises(EventsDamaged):
        _read(directory)
    with pytest.raises(EventsDamaged):
        _dump(directory)


@pytest.mark.parametrize("column", ["turn_id", "type", "agent_name", "content", "timestamp"])
def test_a_number_among_the_texts_is_damage(home: Home, column: str) -> None:
    directory = home.session([user("hello world")])
    with sqlite3.connect(directory / "events.db") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("PRAGMA ignore_check_constraints = 1")
        table = "UPDATE sqlite_master SET sql = replace(replace(sql, ' TEXT', ' '), 'STRICT', '')"
        connection.execute(f"{table} WHERE name = 'events'")
    with sqlite3.connect(directory / "events.db") as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(f"UPDATE events SET {column} = 7")
    connection.close()
    with pytest.raises(EventsDamaged):
        _read(directory)
    with pytest.raises(EventsDamaged):
        _dump(directory)


def test_a_dump_has_every_row_and_hides_what_was_redacted(home: Home) -> None:
    rows = [user("a secret"), *(says("x" * size) for size in range(250))]
    directory = home.session(rows)
    assert _dump(directory) == _lines(_read(directory))
    with Writer(take_lock(directory), "general") as log:
        log.append([draft("transcript_marker.redacted", marker_id="evt-000001", events=["evt-000001"])])
    assert b"a secret" not in _dump(directory)
    assert _dump(directory) == _lines(_read(directory))
    assert _dump(directory, Query(types=("user_message",))) == _lines(_read(directory)[:1])


def test_flipped_bits_give_rows_or_a_named_error(home: Home) -> None:
    directory = home.session([*conversation(), *(says("x" * 300, turn="turn-2") for _ in range(40))])
    path = directory / "events.db"
    sound = path.read_bytes()
    chance = random.Random(7)
    outcomes = set()
    for _ in range(300):
        broken = bytearray(sound)
        for _ in range(chance.choice([1, 1, 8])):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        try:
            rows = _read(directory)
            outcomes.add("rows")
            assert all(isinstance(row, Row) for row in rows)
        except AghError as error:
            outcomes.add(error.code)
    assert {"rows", "events_damaged"} <= outcomes
