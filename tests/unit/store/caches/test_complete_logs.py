"""The repair cache: whatever happens to it, a repair finds what opening every log finds."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agh.errors import AghError
from agh.home import Session
from agh.sessions.repair import repair_each
from agh.store import meta, reader, sessions
from agh.store.caches import complete_logs
from agh.store.writer import Writer
from tests.support.build import Home, finishes, says, take_lock, user

OLD = 1_700_000_000_000_000_000  # a time of change that is long ago
ACTIONS = (
    *("new", "new", "crash", "say", "say", "lose events", "bring back", "delete", "delete log", "cut log"),
    *("damage", "flip", "cut", "lose cache", "remember", "restore"),
)


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete_logs, "FEW", -1)  # write the cache after every repair


def settle(directory: Path, at: int = OLD) -> None:
    for file in (meta.FILE, reader.FILE):
        if (directory / file).exists():
            os.utime(directory / file, ns=(at, at))


def complete_session(home: Home, session_id: str, **fields: Any) -> Path:
    directory = home.session([user("a"), says("b"), finishes()], id=session_id, last_sequence=3, **fields)
    settle(directory)
    return directory


def reports() -> list[dict[str, Any]]:
    return list(repair_each(sessions.all_sessions(), dry_run=True))


def reports_without_cache(home: Home) -> list[dict[str, Any]]:
    cache = home.path / complete_logs.FILE
    aside = cache.rename(cache.with_suffix(".aside")) if cache.exists() else None
    found = reports()
    cache.unlink(missing_ok=True)
    if aside:
        aside.rename(cache)
    return found


def say_more(directory: Path) -> None:
    session = Session.at(directory)
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([user("c", turn="turn-2"), finishes(turn="turn-2")])
        last = log.last_sequence
    meta.write(session, {**meta.read(session), "last_sequence": last})


@pytest.mark.parametrize("seed", range(6))
def test_a_repair_with_the_cache_finds_what_one_without_it_finds(
    home: Home, seed: int, tmp_path: Path
) -> None:
    chance, cache, older = random.Random(seed), home.path / complete_logs.FILE, b""
    for step in range(60):
        action = chance.choice(ACTIONS)
        directories = sorted((home.path / "sessions").glob("sess-*"))
        directory = chance.choice(directories) if directories else home.path
        log, copy = directory / reader.FILE, tmp_path / directory.name
        if action == "new" or not directories:
            directory = complete_session(home, f"sess-{step:08d}")
            shutil.copy2(directory / reader.FILE, tmp_path / directory.name)
        elif action == "crash":
            complete_session(home, f"sess-{step:08d}", state="active", stop_reason=None)
        elif action == "say" and log.exists():
            with suppress(AghError):  # it may be damaged by now
                say_more(directory)
        elif action in ("lose events", "bring back") and copy.exists():
            shutil.copy2(copy, log)  # as a backup does, with the time of change that it had
        elif action == "delete":
            shutil.rmtree(directory)
        elif action == "delete log":
            log.unlink(missing_ok=True)
        elif action == "cut log" and log.exists():
            os.truncate(log, log.stat().st_size // 2)
        elif action == "damage":
            (directory / meta.FILE).write_bytes(b"{}")
        elif action == "flip" and cache.exists():
            data = bytearray(cache.read_bytes() or b"x")
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            cache.write_bytes(data)
        elif action == "cut" and cache.exists():
            cache.write_bytes(cache.read_bytes()[: chance.randrange(cache.stat().st_size + 1)])
        elif action == "lose cache":
            cache.unlink(missing_ok=True)
        elif action == "remember" and cache.exists():
            older = cache.read_bytes()
        elif action == "restore":
            cache.write_bytes(older)
        if action in ("say", "crash", "cut log", "damage") and chance.random() < 0.8 and directory.is_dir():
            settle(directory, OLD + step)
        expected = reports_without_cache(home)
        assert reports() == expected, (seed, step, action)


def test_a_log_that_was_complete_is_not_opened_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    complete_session(home, "sess-aaaaaaa1")
    complete_session(home, "sess-aaaaaaa2", stop_reason="error")
    home.session([user("a"), finishes()], id="sess-aaaaaaa3", last_sequence=2)  # has just changed
    expected, opened = reports(), list[str]()
    check = reader.Reader._check_header

    def count(self: reader.Reader) -> int | None:
        opened.append(self.session_id)
        return check(self)

    monkeypatch.setattr(reader.Reader, "_check_header", count)
    assert reports() == expected
    assert [id[-1] for id in opened] == ["2", "3"]
    list(repair_each(sessions.all_sessions(), dry_run=True, force=True))
    assert [id[-1] for id in opened] == ["2", "3", "1", "2", "3"]


def test_a_log_that_lost_events_since_is_found(home: Home, tmp_path: Path) -> None:
    directory = complete_session(home, "sess-aaaaaaa1")
    shutil.copy2(directory / reader.FILE, tmp_path / "backup")
    say_more(directory)
    settle(directory, OLD + 1)
    assert [report["issues"] for report in reports()] == [[]]
    shutil.copy2(tmp_path / "backup", directory / reader.FILE)
    ((issue,),) = [report["issues"] for report in reports()]
    assert issue["code"] == "lost_events"


def test_what_is_only_in_a_wal_is_not_stored(home: Home) -> None:
    directory = complete_session(home, "sess-aaaaaaa1")
    (directory / f"{reader.FILE}-wal").touch()
    reports()
    assert not (home.path / complete_logs.FILE).exists()


def test_a_cache_that_cannot_be_written_is_not_missed(home: Home) -> None:
    complete_session(home, "sess-aaaaaaa1")
    (home.path / complete_logs.FILE).mkdir()
    assert [report["issues"] for report in reports()] == [[]]
