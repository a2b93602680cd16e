"""The list cache: whatever happens to it and to the sessions, a list is what reading every session gives."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from agh.core.display.brief import Brief, brief_of
from agh.home import Session
from agh.store import lock, meta, views
from agh.store.caches import briefs
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


def read_views(some: Iterable[Session]) -> Iterable[dict[str, Any]]:
    return views.read_views(some, None)


def brief_list() -> list[Brief]:
    cache = briefs.BriefCache(read_views)
    listed = sorted(cache.briefs(), reverse=True)
    cache.save()
    return listed


def documents() -> list[Any]:
    """List the sessions as JSON, by another process than the one that may have written the cache."""
    cache = briefs.BriefCache(read_views)
    listed = sorted(cache.briefs(), reverse=True)
    cache.save()
    return list(map(orjson.loads, cache.documents([brief.id for brief in listed])))


def whole_list() -> list[Brief]:
    return [brief_of(view) for view in views.list_views()]


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
                    resumes_at=chance.choice((None, "2026-04-30T01:00:00.000Z")),
                    attach=chance.choice(
                        (None, {"attached_to": "me", "attach_expires_at": "2026-04-20T00:00:00.000Z"})
                    ),
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
            if chance.random() < 0.5:
                assert documents() == views.list_views(), (seed, step, action)
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
    assert brief_list()[0].name == "one"
    meta.write(Session.at(directory), {**meta.read(Session.at(directory)), "name": "two"})
    settle(directory)  # the size and the time are the same, the file is another
    assert brief_list()[0].name == "two"


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


def test_a_table_does_not_need_the_documents(home: Home) -> None:
    """Whatever happens to the second part of the file, the sessions are read instead."""
    for number in range(3):
        settle(home.directory(id=f"sess-aaaaaaa{number}", name=f"session {number}"))
    expected = documents()
    cache = home.path / briefs.FILE
    cache.write_bytes(cache.read_bytes()[:-9] + b"x" * 9)
    assert brief_list() == whole_list()
    assert documents() == expected == views.list_views()


def test_a_file_that_is_replaced_between_its_parts_is_not_mixed(home: Home) -> None:
    for number in range(3):
        settle(home.directory(id=f"sess-aaaaaaa{number}", name=f"session {number}"))
    brief_list()
    cache = briefs.BriefCache(read_views)
    listed = sorted(cache.briefs(), reverse=True)
    for number in range(3, 6):
        settle(home.directory(id=f"sess-aaaaaaa{number}", name=f"another {number}"))
    brief_list()  # writes the file again
    names = [orjson.loads(text)["name"] for text in cache.documents([brief.id for brief in listed])]
    assert names == [brief.name for brief in listed] == [f"session {number}" for number in (2, 1, 0)]


def test_the_cache_of_another_version_is_not_used(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(home.directory(id="sess-aaaaaaa1", name="one"))
    brief_list()
    assert briefs.BriefCache(read_views).briefs() and not briefs.BriefCache(read_views).views
    monkeypatch.setattr(briefs, "FORMAT", briefs.FORMAT + 1)
    cache = briefs.BriefCache(read_views)
    assert cache.briefs() and list(cache.views) == ["sess-aaaaaaa1"]


@pytest.mark.parametrize("seed", range(3))
def test_lists_that_are_killed_leave_a_cache_that_is_right(home: Home, seed: int) -> None:
    """Kill lists at random moments, as they write the file, while sessions change."""
    chance = random.Random(seed)
    for number in range(200):
        settle(home.directory(id=f"sess-{number:08d}", name=f"session {number}"))
    for step in range(12):
        for number in chance.sample(range(200), 60):
            directory = home.directory(id=f"sess-{number:08d}", name=f"step {step} of {number}")
            settle(directory, OLD + step)
        child = os.fork()
        if not child:
            try:
                documents()
            finally:
                os._exit(0)
        time.sleep(chance.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert brief_list() == whole_list()
        assert documents() == views.list_views()
