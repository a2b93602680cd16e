"""A report waits until meta.json is as new as the log, but never for a keeper that is gone or frozen."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from agh.home import Session
from agh.store import catch_up, meta
from agh.store.catch_up import await_metadata
from tests.support.build import Home, take_lock

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def session(home: Home) -> Session:
    return Session.at(home.directory(state="active", last_sequence=3))


def test_it_returns_once_the_metadata_is_written(session: Session) -> None:
    def write() -> None:
        time.sleep(0.05)  # the keeper is between its commit and its metadata
        meta.write(session, {**meta.read(session), "last_sequence": 7})

    writer = threading.Thread(target=write)
    with take_lock(Path(session.directory)):
        writer.start()
        await_metadata(session, 7)
        assert meta.read(session)["last_sequence"] == 7
        writer.join()


def test_it_does_not_wait_when_nobody_will_write(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "_LIMIT", 60.0)
    await_metadata(session, 10_000)


def test_it_does_not_wait_for_damaged_metadata(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "_LIMIT", 60.0)
    with take_lock(Path(session.directory)):
        Path(session.directory, "meta.json").write_text("{")
        await_metadata(session, 10_000)


def test_a_frozen_keeper_delays_it_for_a_bounded_time(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "_LIMIT", 0.05)
    with take_lock(Path(session.directory)):
        await_metadata(session, 10_000)
    assert meta.read(session)["last_sequence"] == 3
