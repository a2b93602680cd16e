"""A waiter is woken when a session's directory changes, and not otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agh.store import watch as watching
from agh.store.watch import Watch
from tests.support.build import Home, child, take_lock

pytestmark = pytest.mark.timeout(60)

WOKEN = 0.9 * watching.IDLE

HOLDS = """
import sys
from agh.home import Session
from agh.store import lock
owner = lock.take(Session.at(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def _spent(watch: Watch, limit: float = 1.0) -> float:
    started = time.monotonic()
    watch.wait(limit)
    return time.monotonic() - started


def _rest(watch: Watch) -> None:
    """Use up what was announced and the looks that follow, until a wait is a real wait."""
    for _ in range(3 * len(watching._LOOKS_AGAIN)):
        watch.wait(0.001)


@pytest.fixture
def directory(home: Home) -> Path:
    return home.directory(state="active")


needs_inotify = pytest.mark.skipif(watching._inotify_init() < 0, reason="no inotify here")


@needs_inotify
@pytest.mark.parametrize("what", ["the WAL grows", "metadata is replaced", "a file appears"])
def test_a_change_wakes_the_waiter(directory: Path, what: str) -> None:
    (directory / "events.db-wal").write_bytes(b"")
    changes = {
        "the WAL grows": lambda: (directory / "events.db-wal").write_bytes(b"x"),
        "metadata is replaced": lambda: os.rename(directory / "meta.json", directory / "meta.json.2"),
        "a file appears": (directory / "new").touch,
    }
    with Watch() as watch:
        watch.add(str(directory))
        _rest(watch)
        changes[what]()
        assert _spent(watch) < WOKEN


@needs_inotify
def test_a_waiter_is_woken_while_it_waits(directory: Path) -> None:
    with Watch() as watch:
        watch.add(str(directory))
        _rest(watch)
        change = threading.Timer(0.02, (directory / "events.db-wal").write_bytes, [b"x"])
        change.start()
        assert _spent(watch) < WOKEN
        change.join()


@needs_inotify
def test_the_death_of_the_keeper_wakes_the_waiter(directory: Path) -> None:
    with child(HOLDS, directory) as holder, Watch() as watch:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        watch.add(str(directory))
        _rest(watch)
        holder.kill()
        assert _spent(watch) < WOKEN


@needs_inotify
def test_quiet_directories_let_the_waiter_sleep(directory: Path) -> None:
    with Watch() as watch:
        watch.add(str(directory))
        _rest(watch)
        assert _spent(watch, 0.1) > 0.09
        assert _spent(watch, 99) < watching.IDLE + 5, "no wait is longer than a second"


@needs_inotify
def test_what_was_found_is_looked_for_again_a_few_times(directory: Path) -> None:
    with Watch() as watch:
        watch.add(str(directory))
        _rest(watch)
        watch.note_change()
        looks = len(watching._LOOKS_AGAIN)
        assert all(_spent(watch, 1.0) < WOKEN for _ in range(looks))
        assert _spent(watch, 0.1) > 0.09


def test_without_inotify_the_wait_is_a_short_poll(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_inotify_init", lambda: -1)
    with Watch() as watch:
        watch.add(str(directory))
        for _ in range(3):
            assert _spent(watch) < WOKEN
        watch.note_change()
        assert _spent(watch, 0.001) < WOKEN


@needs_inotify
def test_a_directory_that_cannot_be_watched_is_polled(directory: Path) -> None:
    with Watch() as watch:
        watch.add(str(directory))
        watch.add(str(directory / "missing"))
        assert all(_spent(watch) < WOKEN for _ in range(20))


def test_a_watch_leaves_no_descriptor(directory: Path) -> None:
    with take_lock(directory):
        before = os.listdir("/proc/self/fd")
        for _ in range(5):
            with Watch() as watch:
                watch.add(str(directory))
            watch.close()
        assert os.listdir("/proc/self/fd") == before


@pytest.fixture
def no_spare(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Start without a spare descriptor, and close what is left."""
    spare: list[int] = []
    monkeypatch.setattr(watching, "_spare", spare)
    yield spare
    for fd in spare:
        os.close(fd)


def test_a_closed_watch_leaves_its_descriptor_to_the_next(tmp_path: Path, no_spare: list[int]) -> None:
    old, other = tmp_path / "old", tmp_path / "other"
    old.mkdir()
    other.mkdir()
    with Watch() as first:
        first.add(old)
        (old / "seen by nobody").touch()
        fd = first._fd
    assert no_spare == [fd]
    with Watch() as second:
        assert (second._fd, no_spare) == (fd, [])
        second.add(other)
        (old / "no longer watched").touch()
        assert not second._wait_for_event(0.05)
        (other / "watched").touch()
        assert second._wait_for_event(1)


def test_watches_at_the_same_time_have_their_own_descriptors(tmp_path: Path, no_spare: list[int]) -> None:
    with Watch() as first, Watch() as second:
        fds = {first._fd, second._fd}
        assert len(fds) == 2
    assert len(no_spare) == 1, "only one is kept"
    (closed,) = fds - set(no_spare)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(closed)


def test_a_fork_does_not_share_the_spare_descriptor() -> None:
    code = "import os; from agh.store import watch; watch.Watch().close(); assert watch._spare\n"
    code += "pid = os.fork()\nif not pid: os._exit(len(watch._spare))\n"
    code += "raise SystemExit(os.waitpid(pid, 0)[1] or len(watch._spare) - 1)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
