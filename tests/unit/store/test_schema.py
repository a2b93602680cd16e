"""The schema itself keeps the promises: no gaps, nothing updated, nothing deleted, whoever writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from agh.core.events import event_id
from agh.errors import EventsNewer
from agh.home import Session
from agh.store import inputs, schema
from agh.store.reader import Reader
from agh.store.writer import Writer
from tests.support.build import Home, conversation, take_lock, user
from tests.support.files import tree
from tests.support.program import Agh

Connection = sqlite3.Connection
INSERT = (
    "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) "
    "VALUES (?, 't', 'done', 'a', '{}', '')"
)


@pytest.fixture
def fresh() -> Iterator[Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(connection)
    yield connection
    connection.close()


@pytest.fixture
def three(fresh: Connection) -> Connection:
    fresh.executemany(INSERT, [(1,), (2,), (3,)])
    return fresh


def _shape(connection: Connection) -> list[tuple[object, ...]]:
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    ).fetchall()
    pragmas = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")]
    return [(kind, name, table, sql and " ".join(sql.split())) for kind, name, table, sql in rows] + pragmas


def test_the_snapshot_is_what_the_migrations_lead_to() -> None:
    assert Path(schema.SNAPSHOT).read_text(encoding="utf-8") == schema.snapshot()


def test_both_roads_end_in_the_same_schema(fresh: Connection) -> None:
    grown = sqlite3.connect(":memory:", isolation_level=None)
    schema.upgrade(grown)
    assert _shape(grown) == _shape(fresh)
    schema.upgrade(grown)
    assert _shape(grown) == _shape(fresh)
    grown.close()


def test_the_tables_and_columns_of_the_contract(fresh: Connection) -> None:
    tables = {name for (name,) in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"events", "token_usage", "hook_runs", "inputs", "permissions"} <= tables
    columns = [row[1] for row in fresh.execute("PRAGMA table_xinfo(events)")]
    assert columns == ["sequence", "id", "turn_id", "type", "agent_name", "content", "timestamp"]
    assert fresh.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"agh!"),)
    assert fresh.execute("PRAGMA user_version").fetchone() == (schema.VERSION,) == (len(schema.MIGRATIONS),)


def test_the_generated_id_is_the_one_the_code_knows(fresh: Connection) -> None:
    with_gaps = sqlite3.connect(":memory:", isolation_level=None)
    schema.create(with_gaps)
    with_gaps.execute("DROP TRIGGER events_have_no_gaps")
    numbers = [1, 42, 999_999, 1_000_000, 123_456_789, 2**63 - 1]
    with_gaps.executemany(INSERT, [(number,) for number in numbers])
    rows = with_gaps.execute("SELECT sequence, id FROM events ORDER BY sequence").fetchall()
    with_gaps.close()
    assert rows == [(number, event_id(number)) for number in numbers]


@pytest.mark.parametrize("sequence", [0, -1, None, 2, 7, 2**63 - 1])
def test_the_first_sequence_is_1(fresh: Connection, sequence: int | None) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="must follow the last one"):
        fresh.execute(INSERT, [sequence])
    fresh.execute(INSERT, [1])


@pytest.mark.parametrize(
    "verb", ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE"]
)
@pytest.mark.parametrize("sequence", [0, -1, None, 1, 3, 5, 100])
def test_a_gap_or_a_replacement_is_refused(three: Connection, verb: str, sequence: int | None) -> None:
    before = three.execute("SELECT * FROM events").fetchall()
    with pytest.raises(sqlite3.IntegrityError):
        three.execute(INSERT.replace("INSERT", verb, 1), [sequence])
    assert three.execute("SELECT * FROM events").fetchall() == before
    three.execute(INSERT, [4])


def test_an_upsert_is_refused(three: Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        three.execute(f"{INSERT} ON CONFLICT(sequence) DO UPDATE SET content = 'x'", [2])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET content = 'x' WHERE sequence = 2",
        "UPDATE events SET sequence = 9 WHERE sequence = 3",
        "UPDATE OR REPLACE events SET sequence = 1 WHERE sequence = 3",
        "DELETE FROM events WHERE sequence = 3",
        "DELETE FROM events",
    ],
)
def test_events_are_append_only(three: Connection, change: str) -> None:
    before = three.execute("SELECT * FROM events").fetchall()
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        three.execute(change)
    assert three.execute("SELECT * FROM events").fetchall() == before


@pytest.mark.parametrize("column", ["turn_id", "type", "agent_name", "content", "timestamp"])
def test_every_column_has_a_value(fresh: Connection, column: str) -> None:
    values = {
        "turn_id": "",
        "type": "done",
        "agent_name": "a",
        "content": "{}",
        "timestamp": "",
        column: None,
    }
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        fresh.execute(
            "INSERT INTO events (sequence, turn_id, type, agent_name, content, timestamp) "
            "VALUES (1, :turn_id, :type, :agent_name, :content, :timestamp)",
            values,
        )


def test_an_idempotency_key_is_used_once_and_none_is_no_key(fresh: Connection) -> None:
    sql = (
        "INSERT INTO inputs "
        "(generation, mode, status, prompt, idempotency_key, turn_id, created_at, updated_at) "
        "VALUES (0, 'queue', 'queued', 'x', ?, 't', '', '')"
    )
    fresh.executemany(sql, [(None,), (None,), ("k",)])
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        fresh.execute(sql, ["k"])


def test_an_older_log_is_brought_up_and_keeps_its_rows(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = home.session(conversation())

    def add_a_table(db: object) -> None:
        db.execute("CREATE TABLE later (x)")  # type: ignore[attr-defined]

    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add_a_table])
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        assert log.last_sequence == len(conversation())
        assert log.connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert log.connection.execute("SELECT count(*) FROM later").fetchone() == (0,)
        log.append([user("more", turn="turn-2")])


def test_a_log_of_the_first_version_is_read_as_it_is_and_brought_up_by_a_writer(home: Home, agh: Agh) -> None:
    directory = home.session(conversation())
    with sqlite3.connect(directory / "events.db") as first:
        first.execute("ALTER TABLE inputs DROP COLUMN retries")
        first.execute("ALTER TABLE inputs DROP COLUMN park")
        first.execute("DROP TABLE questions")
        first.execute("PRAGMA user_version = 1")
    first.close()
    for command in ("status", "queue list", "recap", "events", "usage", "questions"):
        agh("session", *command.split(), directory.name)
    with Reader(Session.at(directory)) as reader:
        assert reader.fetch("PRAGMA user_version") == [(1,)]
    with take_lock(directory) as owner, Writer(owner, "general") as log, log.transaction() as db:
        inputs.add(db, generation=0, mode="queue", prompt=[], turn_id="t", key=None, retries=2)
        assert [one.retries for one in inputs.queued(db)] == [2]


def test_a_newer_log_is_refused_by_name_and_left_alone(home: Home) -> None:
    directory = home.session(conversation())
    with sqlite3.connect(directory / "events.db") as newer:
        newer.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    newer.close()
    before = tree(directory)
    with pytest.raises(EventsNewer, match=f"has format {schema.VERSION + 1}.*up to {schema.VERSION}"):
        Reader(Session.at(directory))
    with take_lock(directory) as owner, pytest.raises(EventsNewer):
        Writer(owner, "general")
    assert tree(directory) == before
