"""The list cache: whatever happens to it and to the sessions, a list is what reading every session gives."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agh.home import Session
from agh.store import briefs, lock, meta, views
from tests.support.build import Home, take_lock

OLD = 1_700_000_000_000_000_000  # a time of change that is long ago
ACTIONS = [
    *("new", "new", "change", "change", "change", "delete", "damage", "lock", "lock", "release"),
    *("flip", "cut", "lose", "remember", "restore"),
]


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(briefs, "FEW", 0)  # write the cache after every change


def settle(directory: Path, at: int = OLD) -> None:
    os.utime(directory / meta.FILE, ns=(at, at))


def brief_list() -> list[Any]:
    return views.list_briefs(lambda view: True)


def whole_list() -> list[Any]:
    return [briefs._brief(view) for view in views.list_views()]


@pytest.mark.parametrize("seed", range(8))
def test_a_list_from_the_cache_is_the_list_without_it(home: Home, seed: int) -> None:
    chance, cache = random.Random(seed), home.path / briefs.FILE
    older = b""
    with ExitStack() as locks:
        for step in range(150):
            directories = sorted((home.path / "sessions").glob("sess-*"))
            action = chance.choice(ACTIONS) if directories else "new"
            directory = chance.choice(directories) if directories else home.path
            if action == "new":
                directory = home.directory(id=f"sess-{step:08d}", name=f"session {step}", title="é")
            elif action == "delete":
                shutil.rmtree(directory)
            elif action == "damage":
                file = directory / meta.FILE
                file.write_bytes(file.read_bytes()[: chance.randrange(300)])
            elif action == "lock":
                if not lock.is_held(Session.at(directory)):
                    locks.enter_context(take_lock(directory))
            elif action == "release":
                locks.close()
            elif action == "change":
                home.directory(
                    id=directory.name,
                    name=f"name {chance.randrange(9)}",
                    state=chance.choice(("stopped", "stopped", "active", "starting", "odd")),
                    stop_reason=chance.choice(("completed", "paused", "error", None)),
                    archived=chance.choice((True, False, None)),
                    updated_at=f"2026-04-{chance.randrange(10, 30)}T01:00:00.000Z",
                    failure=chance.choice((None, {"kind": "x", "summary": "it broke"})),
                )
            elif action == "flip" and cache.exists():
                data = bytearray(cache.read_bytes() or b"x")
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                cache.write_bytes(data)
            elif action == "cut" and cache.exists():
                cache.write_bytes(cache.read_bytes()[: chance.randrange(cache.stat().st_size + 1)])
            elif action == "lose":
                cache.unlink(missing_ok=True)
            elif action == "remember" and cache.exists():
                older = cache.read_bytes()
            elif action == "restore":
                cache.write_bytes(older)
            if action in ("new", "damage", "change") and chance.random() < 0.9:
                settle(directory, OLD + step)
            assert brief_list() == whole_list(), (seed, step, action)
    assert cache.exists()


def test_a_settled_session_is_not_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(home.directory(id="sess-aaaaaaa1", name="one"))
    home.directory(id="sess-aaaaaaa2", name="two")
    settle(home.directory(id="sess-aaaaaaa3", state="active"))
    settle(home.directory(id="sess-aaaaaaa4", stop_detail=briefs.KEEPER_VANISHED))
    expected = brief_list()
    read: list[str] = []
    whole = meta.read
    monkeypatch.setattr(meta, "read", lambda session: read.append(session.id) or whole(session))  # type: ignore[func-returns-value]
    assert brief_list() == expected
    assert [id[-1] for id in read] == ["2", "3", "4"]  # just changed, live by its metadata, was live by it


def test_a_change_in_the_same_tick_of_the_clock_is_seen(home: Home) -> None:
    directory = home.directory(id="sess-aaaaaaa1", name="one")
    settle(directory)
    assert brief_list()[0]["name"] == "one"
    meta.write(Session.at(directory), {**meta.read(Session.at(directory)), "name": "two"})
    settle(directory)  # the size and the time are the same, the file is another
    assert brief_list()[0]["name"] == "two"


def test_a_time_of_change_in_the_future_is_not_trusted(home: Home) -> None:
    directory = home.directory(id="sess-aaaaaaa1")
    settle(directory, 4_000_000_000_000_000_000)
    brief_list()
    assert not (home.path / briefs.FILE).exists()


def test_a_cache_that_cannot_be_written_changes_nothing(home: Home) -> None:
    settle(home.directory(id="sess-aaaaaaa1", name="one"))
    (home.path / briefs.FILE / "in the way").mkdir(parents=True)
    assert brief_list() == whole_list() != []
    assert sorted(path.name for path in home.path.iterdir()) == [briefs.FILE, "sessions"]


def test_few_changes_do_not_write_the_cache(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(briefs, "FEW", 1)
    settle(home.directory(id="sess-aaaaaaa1"))
    brief_list()
    assert not (home.path / briefs.FILE).exists()
    settle(home.directory(id="sess-aaaaaaa2"))
    brief_list()
    assert (home.path / briefs.FILE).stat().st_mode & 0o777 == 0o600
