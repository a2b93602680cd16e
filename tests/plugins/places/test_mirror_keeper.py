"""What a mirror answers to requests that are under way when its session ends or its connection breaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agh_places.mirror_keeper import Mirror

from agh.errors import KeeperGone, PlaceGone
from agh.keeper.process import Ready
from agh.store import meta
from tests.support.build import Home, take_lock


class SilentWire:
    """A connection whose other end has not answered yet."""

    def send(self, message: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def mirror(home: Home, tmp_path: Path) -> Iterator[Mirror]:
    directory = home.session(kind="mirror", place="box", workspace_path=str(tmp_path), state="starting")
    reading, writing = os.pipe()
    with take_lock(directory) as lock:
        mirror = Mirror(lock, Ready(writing), {})
        mirror._wire = SilentWire()  # type: ignore[assignment]
        mirror._take({"live": {}})
        yield mirror
    os.close(reading)


def ask(mirror: Mirror, verb: str) -> list[Any]:
    """Send a request, and return the list that its answer will be added to."""
    answers: list[Any] = []
    mirror.verbs()[verb]({"verb": verb}, answers.append)
    assert answers == []
    return answers


def test_a_session_that_has_ended_needs_no_stop(mirror: Mirror) -> None:
    stop, prompt = ask(mirror, "stop"), ask(mirror, "prompt")
    mirror._take({"ended": {"state": "stopped", "stop_reason": "completed"}})
    mirror.close()
    assert stop == [{"pid": os.getpid()}]
    assert [type(answer) for answer in prompt] == [KeeperGone], "whoever sent it starts the session"
    assert meta.read(mirror.session)["stop_reason"] == "completed"


def test_a_mirror_that_ends_alone_has_not_stopped_the_session(mirror: Mirror) -> None:
    stop = ask(mirror, "stop")
    mirror.cut()
    mirror.close()
    assert [type(answer) for answer in stop] == [PlaceGone]
