from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from agh.store import inputs
from agh.store.inputs import Input
from agh.store.writer import Writer
from tests.support.build import Home, take_lock


@pytest.fixture
def db(home: Home) -> Iterator[sqlite3.Connection]:
    with (
        take_lock(home.session()) as owner,
        Writer(owner, "general") as writer,
        writer.transaction() as connection,
    ):
        yield connection


def add(
    db: sqlite3.Connection, text: str, *, mode: str = "queue", generation: int = 0, key: str | None = None
) -> Input:
    prompt = [{"type": "text", "text": text}]
    return inputs.add(db, generation=generation, mode=mode, prompt=prompt, turn_id=f"turn-{text}", key=key)


def words(found: list[Input]) -> list[str]:
    return [item.prompt[0]["text"] for item in found]


def test_what_is_added_waits_in_order(db: sqlite3.Connection) -> None:
    items = [add(db, word) for word in "abc"]
    assert [draft.id for draft in items] == [1, 2, 3]
    assert {draft.status for draft in items} == {"queued"}
    assert inputs.queued(db) == items
    assert inputs.next_queued(db) == items[0]
    assert inputs.count_queued(db) == 3
    assert inputs.by_id(db, 2) == items[1]


def test_nothing_waits(db: sqlite3.Connection) -> None:
    assert inputs.queued(db) == []
    assert inputs.next_queued(db) is None
    assert inputs.count_queued(db) == 0
    assert inputs.generation(db) == 0
    assert inputs.by_id(db, 1) is None
    assert inputs.by_key(db, "k") is None
    assert not inputs.is_steering(db)


def test_steering_goes_first_and_in_order(db: sqlite3.Connection) -> None:
    for text, mode in (("a", "queue"), ("b", "steer"), ("c", "interrupt"), ("d", "steer")):
        add(db, text, mode=mode)
    assert words(inputs.queued(db)) == ["b", "d", "a", "c"]
    assert inputs.is_steering(db)
    for number in (2, 4):
        inputs.set_status(db, number, "sent")
    assert not inputs.is_steering(db)
    assert words(inputs.queued(db)) == ["a", "c"]


@pytest.mark.parametrize("status", ["dispatching", "sent", "failed", "cancelled", "interrupted"])
def test_only_what_is_queued_waits(db: sqlite3.Connection, status: str) -> None:
    add(db, "a")
    add(db, "b")
    inputs.set_status(db, 1, status, "because")
    assert words(inputs.queued(db)) == ["b"]
    assert inputs.count_queued(db) == 1
    row = inputs.by_id(db, 1)
    assert row is not None
    assert row.status == status
    assert db.execute("SELECT detail FROM inputs ORDER BY id").fetchall() == [("because",), (None,)]


def test_a_key_is_given_once(db: sqlite3.Connection) -> None:
    item = add(db, "a", key="k")
    assert inputs.by_key(db, "k") == item
    with pytest.raises(sqlite3.IntegrityError):
        add(db, "b", key="k")
    add(db, "c")
    add(db, "d")
    assert words(inputs.queued(db)) == ["a", "c", "d"], "without a key there is nothing to clash"


def test_the_generation_is_the_highest_there_was(db: sqlite3.Connection) -> None:
    add(db, "a")
    add(db, "b", generation=2)
    add(db, "c", generation=1)
    assert inputs.generation(db) == 2
    inputs.set_status(db, 2, "cancelled")
    assert inputs.generation(db) == 2


def test_the_prompt_comes_back_as_it_was(db: sqlite3.Connection) -> None:
    blocks = [
        {"type": "text", "text": 'a "quoted" \u2028 line\n\x1b[31m ž'},
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
    ]
    item = inputs.add(db, generation=0, mode="queue", prompt=blocks, turn_id="turn-1", key=None)
    row = inputs.by_id(db, item.id)
    assert row is not None
    assert row.prompt == blocks
