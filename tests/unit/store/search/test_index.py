"""The search index: it says what the logs say, whatever happened to it and to them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from agh.errors import IndexFailed
from agh.home import cache_path
from agh.store import lock
from agh.store.search import index, indexer
from agh.store.search.index import Query, find
from agh.store.writer import Writer
from tests.support.build import ROOT, Home, child, conversation, draft, marker, says, take_lock, user
from tests.support.files import tree
from tests.support.wait import wait_until


def found(match: str, **fields: object) -> list[tuple[str, int]]:
    answer = find(Query(match, **fields))  # type: ignore[arg-type]
    return sorted((match.session_id, match.sequence) for match in answer.matches)


def append(directory: Path, *texts: str) -> None:
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([says(text) for text in texts])


def read_again() -> list[str]:
    """Return the sessions that a search reads."""
    seen: list[str] = []

    def note(items: Iterable[str], total: int) -> Iterator[str]:
        for item in items:
            seen.append(item)
            yield item

    find(Query("x"), note)
    return seen


def settled(*directories: Path) -> None:
    """As if the logs had been written a while ago."""
    for directory in directories:
        past = time.time() - 5
        os.utime(directory / "events.db", (past, past))


def contents() -> list[tuple[object, ...]]:
    """Return everything the index says, in an order of its own."""
    db = sqlite3.connect(Path(cache_path()) / index.NAME)
    columns = "id, sequence, turn_id, role, timestamp, text"
    sql = f"SELECT {columns} FROM texts JOIN sessions ON sessions.number = session ORDER BY 1, 2, 4"
    rows = db.execute(sql).fetchall()
    db.execute("INSERT INTO texts_fts(texts_fts, rank) VALUES ('integrity-check', 1)")
    db.close()
    return rows


def test_finds_what_is_in_a_log_and_does_not_touch_it(home: Home) -> None:
    session, other = home.session(conversation()), home.session([user("nothing of it")])
    before = tree(home.path)
    assert found('"marks the session"') == [(session.name, 7)]
    assert found('"nothing"') == [(other.name, 1)]
    assert tree(home.path) == before


def test_the_index_is_private(home: Home) -> None:
    before = os.umask(0)
    try:
        home.session(conversation())
        found("x")
    finally:
        os.umask(before)
    for path in [Path(cache_path()), *Path(cache_path()).iterdir()]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_fresh_index_is_not_written(home: Home) -> None:
    settled(home.session(conversation()), home.session(conversation()))
    found("x")
    before = tree(Path(cache_path()))
    assert read_again() == []
    assert tree(Path(cache_path())) == before


def test_only_what_changed_is_read_and_only_from_its_last_prompt(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, other = home.session([*conversation(), user("second")]), home.session(conversation())
    settled(session, other)
    found("x")
    append(session, "brand", "new", " word")
    fed: list[int] = []
    feed = indexer.Collector.feed
    monkeypatch.setattr(
        indexer.Collector,
        "feed",
        lambda self, rows: (fed.extend(row.sequence for row in rows), feed(self, rows))[1],
    )
    assert read_again() == [session.name]
    assert fed == [11, 12, 13, 14]
    assert found('"brandnew word"') == [(session.name, 12)]


def test_a_message_that_grows_is_found_whole_and_once(home: Home) -> None:
    directory = home.session([user("go"), says("unfini")])
    assert found('"unfini"') == [(directory.name, 2)]
    append(directory, "shed business")
    assert found('"unfini"') == []
    assert found('"unfinished business"') == [(directory.name, 2)]


def test_what_was_written_a_moment_ago_is_not_taken_for_known(home: Home) -> None:
    directory = home.session([user("go")])
    found("x")
    just_now = time.time() + 1  # however slow the test is
    os.utime(directory / "events.db", (just_now, just_now))
    read_again()
    assert read_again() == [directory.name]
    settled(directory)
    read_again()
    assert read_again() == []


def test_a_marker_that_was_redacted_is_not_found(home: Home) -> None:
    secret = marker("provider_failure", "it said pineapple", diagnostic="pineapple")
    directory = home.session([user("go"), secret, user("go on", turn="turn-2")])
    assert found('"pineapple"') == [(directory.name, 2)]
    hidden = {"marker_id": "evt-000002", "kind": "provider_failure", "summary": "it said something"}
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([draft("transcript_marker.redacted", **hidden)])
    assert found('"pineapple"') == []
    assert found('"something"') == [(directory.name, 4)]


def test_follows_a_log_that_is_being_written(home: Home) -> None:
    directory = home.session([user("go")])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        for number in range(20):
            log.append([says(f" word{number}")])
            assert found(f'"word{number}"') == [(directory.name, 2)]


def test_a_deleted_session_falls_out_and_a_replaced_one_is_read_anew(home: Home) -> None:
    session, other = home.session([user("gone")]), home.session([user("first"), says("x"), user("second")])
    assert found('"gone"') == [(session.name, 1)]
    shutil.rmtree(session)
    shutil.rmtree(other)
    home.session([user("other", at="2026-01-01T00:00:00.000Z") for _ in range(5)], id=other.name)
    assert found('"gone"') == found('"first"') == []
    assert found('"other"') == [(other.name, number) for number in range(1, 6)]
    assert len(contents()) == 5


def test_conditions(home: Home) -> None:
    session = home.session(
        [user("apple", at="2026-01-01T00:00:00.000Z"), says("apple", at="2026-03-01T00:00:00.000Z")],
        workspace_path="/here",
    )
    other = home.session([user("apple", at="2026-02-01T00:00:00.000Z")], workspace_path="/there")
    assert found('"apple"') == [(session.name, 1), (session.name, 2), (other.name, 1)]
    assert found('"apple"', roles=("assistant",)) == [(session.name, 2)]
    assert found('"apple"', since="2026-01-15T00:00:00.000Z") == [(session.name, 2), (other.name, 1)]
    assert found('"apple"', workspaces=("/there", "/")) == [(other.name, 1)]
    newest = [match.timestamp[:7] for match in find(Query('"apple"', limit=2)).matches]
    assert newest == ["2026-03", "2026-02"]


def test_a_damaged_session_is_named_and_hides_no_other(home: Home) -> None:
    good, bad, empty = home.session([user("apple")]), home.session([user("apple")]), home.directory()
    (bad / "events.db").write_bytes(b"not a database")
    answer = find(Query('"apple"'))
    assert [match.session_id for match in answer.matches] == [good.name]
    assert sorted(name in said for said in answer.damaged for name in (bad.name, empty.name)) == [
        False,
        False,
        True,
        True,
    ]
    shutil.rmtree(bad)
    shutil.rmtree(empty)
    assert find(Query('"apple"')).damaged == []
    text = (good / "meta.json").read_text()
    (good / "meta.json").write_text("{")
    append(good, "more")
    settled(good)
    assert len(find(Query('"apple"')).damaged) == 1
    (good / "meta.json").write_text(text)
    assert (find(Query('"apple"')).damaged, found('"apple"')) == ([], [(good.name, 1)])


@pytest.mark.parametrize("damage", ["text", "empty", "torn", "old", "tables"])
def test_a_damaged_index_is_built_anew(home: Home, damage: str) -> None:
    directory = home.session(conversation() * 20)
    settled(directory)
    whole = (found('"marks the session"'), contents())
    path = Path(cache_path()) / index.NAME
    if damage == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096])
    elif damage in ("old", "tables"):
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 0" if damage == "old" else "DROP TABLE texts_fts")
        db.close()
    else:
        path.write_bytes(b"" if damage == "empty" else b"no database " * 1000)
    assert (found('"marks the session"'), contents()) == whole


def test_rebuild_reads_everything_and_says_the_same(home: Home) -> None:
    directories = [home.session(conversation()) for _ in range(3)]
    settled(*directories)
    found("x")
    append(directories[1], "more of it")
    found("x")
    grown = contents()
    seen: list[str] = []
    find(Query("x"), lambda items, total: (seen.append(item) or item for item in items), rebuild=True)  # type: ignore[func-returns-value]
    assert seen == sorted(directory.name for directory in directories)
    assert contents() == grown


_BUILD = """
import sys
from agh.store.search import index, indexer
def slow(items, total):
    for number, one in enumerate(items):
        print(number, flush=True)
        if number == int(sys.argv[1]):
            sys.stdin.read()
        yield one
indexer.COMMIT_AFTER = 0.0
index.find(index.Query('"x"'), slow)
"""


def test_a_build_that_was_killed_goes_on_where_it_was(home: Home) -> None:
    directories = [home.session(conversation() * 3) for _ in range(12)]
    settled(*directories)
    with child(_BUILD, 8) as process:
        assert process.stdout is not None
        wait_until(lambda: process.stdout.readline() == "8\n")  # type: ignore[union-attr]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert read_again() == [directory.name for directory in directories[8:]]
    built = contents()
    find(Query("x"), rebuild=True)
    assert contents() == built


def test_two_at_once_give_one_index(home: Home) -> None:
    directories = [home.session(conversation() * 3) for _ in range(12)]
    settled(*directories)
    argv = [sys.executable, "-c", _BUILD, "99"]
    started = [
        subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(3)
    ]
    counts = [process.communicate(timeout=60)[0].count(b"\n") for process in started]
    assert [process.returncode for process in started] == [0] * 3
    assert sorted(counts) == [0, 0, 12]
    built = contents()
    find(Query("x"), rebuild=True)
    assert contents() == built


def test_someone_else_who_builds_for_long_is_not_waited_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "PATIENCE", 0.05)
    settled(home.session([user("apple")]))
    Path(cache_path()).mkdir(parents=True)
    owner = lock.take_directory(cache_path())
    assert owner is not None
    with owner, pytest.raises(IndexFailed):
        find(Query("x"))
    assert not find(Query("x")).behind
    home.session([user("apple")])
    owner = lock.take_directory(cache_path())
    assert owner is not None
    with owner:
        answer = find(Query('"apple"'))
    assert (len(answer.matches), answer.behind) == (1, True)


def test_a_place_that_cannot_be_written_is_an_error(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.session(conversation())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(IndexFailed, match="Not a directory"):
        find(Query("x"))


def test_homes_do_not_see_each_other(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.session([user("apple")])
    assert len(found('"apple"')) == 1
    monkeypatch.setenv("AGH_HOME", str(tmp_path / "other"))
    assert found('"apple"') == []
