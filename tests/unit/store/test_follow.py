"""A follower gets every committed row once and in order, and ends when the session does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from agh.core.events import Row
from agh.errors import EventsMissing, Usage
from agh.home import Session
from agh.store import lock, watch
from agh.store.follow import follow
from agh.store.follow.home import follow_home
from agh.store.reader import EVERYTHING, Query, Reader
from agh.store.writer import Writer
from tests.support.build import Home, child, conversation, finishes, says, take_lock, user
from tests.support.files import tree

pytestmark = pytest.mark.timeout(60)

# Commits batches of 1 to 5 rows at random small pauses to each session, and ends each session at its time.
WRITES = """
import random, sys, time
from pathlib import Path
from tests.support.build import Writer, take_lock, says
chance = random.Random(int(sys.argv[1]))
total = int(sys.argv[2])
owners = [take_lock(Path(path)) for path in sys.argv[3:]]
logs = [Writer(owner, "general") for owner in owners]
print("ready", flush=True)
while logs:
    log = chance.choice(logs)
    log.append([says("x") for _ in range(min(chance.randrange(1, 6), total - log.last_sequence))])
    if log.last_sequence >= total:
        logs.remove(log)
        log.close()
        log.lock.release()
    print(log.last_sequence, flush=True)
    time.sleep(chance.choice([0, 0, 0.0002, 0.001, 0.004]))
"""
# Commits one row at its start and one more whenever it is told to.
ON_DEMAND = """
import sys
from pathlib import Path
from tests.support.build import Writer, take_lock, says
log = Writer(take_lock(Path(sys.argv[1])), "general")
log.append([says("x")])
print("ready", flush=True)
for _ in sys.stdin:
    log.append([says("x")])
    print("ready", flush=True)
"""
# Follows a session and tells how much CPU it took while nothing happened.
IDLES = """
import resource, signal, sys, time
from agh.home import Session
from agh.store.follow import follow
from agh.store.follow.home import follow_home
from agh.store.reader import EVERYTHING

def spent():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

def over(*_):
    print((spent() - cpu) / (time.monotonic() - started), flush=True)
    sys.exit()

signal.signal(signal.SIGALRM, over)
for _ in follow([(Session.at(sys.argv[1]), 0)], EVERYTHING):
    cpu, started = spent(), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 2)
"""


@pytest.fixture(params=["inotify", "polling"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "polling":
        monkeypatch.setattr(watch, "_inotify_init", lambda: -1)
    return str(request.param)


def _ready(stream: IO[str] | None) -> None:
    assert stream is not None and stream.readline() == "ready\n"


def _follow(
    directories: list[Path], query: Query = EVERYTHING, after: int = 0
) -> Iterator[tuple[Path, list[Row]]]:
    for directory, rows in follow([(Session.at(directory), after) for directory in directories], query):
        yield Path(directory), rows


def _all(directory: Path, query: Query = EVERYTHING, after: int = 0) -> list[int]:
    """Return the sequences that a follower of one session gets; it must end with one empty batch."""
    batches = [rows for _, rows in _follow([directory], query, after)]
    assert batches[-1] == [] and all(batches[:-1])
    return [row.sequence for rows in batches for row in rows]


def test_a_stopped_session_gives_what_it_has_and_ends(home: Home) -> None:
    directory = home.session(conversation())
    before = tree(directory)
    assert _all(directory) == list(range(1, 11))
    assert _all(directory, after=7) == [8, 9, 10]
    assert _all(directory, after=99) == []
    assert _all(directory, Query(types=("agent_message",))) == [7, 8]
    assert _all(home.session()) == []
    assert tree(directory) == before


def test_a_long_backlog_comes_in_pages(home: Home) -> None:
    directory = home.session([says("x") for _ in range(2500)])
    batches = [rows for _, rows in _follow([directory])]
    assert [len(rows) for rows in batches] == [1000, 1000, 500, 0]


def test_rows_that_do_not_match_are_passed_over(home: Home) -> None:
    directory = home.session([says("x"), user("a"), *(says("x") for _ in range(2500)), user("b"), finishes()])
    assert _all(directory, Query(types=("user_message",))) == [2, 2503]


def test_a_bad_expression_is_a_usage_error(home: Home) -> None:
    with pytest.raises(Usage):
        _all(home.session(conversation()), Query(where="nonsense"))


def test_everything_a_real_writer_commits(home: Home, waiting: str) -> None:
    directory = home.session([user("backlog")])
    with child(WRITES, 1, 400, directory) as writer:
        _ready(writer.stdout)
        assert _all(directory) == list(range(1, 401))
        assert writer.wait(10) == 0


def test_many_sessions_at_once(home: Home, waiting: str) -> None:
    directories = [home.session([user("backlog")]) for _ in range(6)] + [home.session(conversation())]
    got: dict[Path, list[int]] = {directory: [] for directory in directories}
    over: list[Path] = []
    with child(WRITES, 2, 60, *directories[:-1]) as writer:
        _ready(writer.stdout)
        for directory, rows in _follow(directories):
            assert directory not in over
            got[directory] += [row.sequence for row in rows]
            if not rows:
                over.append(directory)
    assert sorted(over) == sorted(directories)
    assert over[0] == directories[-1], "the one that had stopped already"
    assert [got[directory] for directory in directories[:-1]] == [list(range(1, 61))] * 6
    assert got[directories[-1]] == list(range(1, 11))


def test_a_writer_that_is_killed_ends_the_stream(home: Home, waiting: str) -> None:
    directory = home.session([user("backlog")])
    with child(WRITES, 3, 10**6, directory) as writer:
        _ready(writer.stdout)
        got: list[int] = []
        for _, rows in _follow([directory]):
            got += [row.sequence for row in rows]
            if len(got) > 60 and writer.poll() is None:
                writer.send_signal(signal.SIGKILL)
        assert writer.stdout is not None
        acknowledged = [int(line) for line in writer.stdout if line.endswith("\n")]
    assert got == list(range(1, len(got) + 1))
    assert len(got) >= acknowledged[-1]
    assert not lock.is_held(Session.at(directory))


def test_the_last_commit_of_a_killed_writer_is_in_the_stream(home: Home) -> None:
    directory = home.session([user("a")])
    index = directory / "events.db-shm"
    with child(ON_DEMAND, directory) as writer:
        assert writer.stdin is not None
        _ready(writer.stdout)
        stream = _follow([directory])
        assert [row.sequence for row in next(stream)[1]] == [1, 2]
        before = index.read_bytes()
        writer.stdin.write("more\n")
        writer.stdin.flush()
        _ready(writer.stdout)
        writer.send_signal(signal.SIGKILL)
        writer.wait(10)
    with index.open("r+b") as file:  # as it was before the commit: the kill came a moment earlier
        file.write(before)
    got = [row.sequence for _, rows in stream for row in rows]
    with Reader(Session.at(directory)) as reader:
        assert reader.last_sequence() == 3
    assert got == [3]


def test_a_caller_with_a_clock_is_called_at_least_that_often(home: Home, waiting: str) -> None:
    directory = home.session([user("a")])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        stream = follow([(Session.at(directory), 0)], EVERYTHING, tick=0.02)
        assert [row.sequence for row in next(stream).rows] == [1]
        started = time.monotonic()
        assert [next(stream) for _ in range(3)] == [(None, [])] * 3
        assert time.monotonic() - started < 1
        log.append([user("b")])
        assert next(batch for batch in stream if batch.session).rows[0].sequence == 2
        log.close()
        owner.release()
        assert [batch for batch in stream if batch.session] == [(Session.at(directory), [])]


def test_a_row_comes_soon_after_its_commit(home: Home, waiting: str) -> None:
    directory = home.session([user("backlog")])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        stream = _follow([directory])
        assert [row.sequence for row in next(stream)[1]] == [1]
        waits = []
        for number in range(2, 12):
            log.append([says("x")])
            started = time.monotonic()
            assert [row.sequence for row in next(stream)[1]] == [number]
            waits.append(time.monotonic() - started)
        assert sorted(waits)[5] < 0.9 * watch.IDLE, "the follower was woken, it did not happen to look"
        log.close()
        owner.release()
        assert [rows for _, rows in stream] == [[]]


def test_a_keeper_that_comes_while_a_dead_session_is_read(home: Home) -> None:
    directory = home.session([user("a")])
    stream = _follow([directory])
    assert [row.sequence for row in next(stream)[1]] == [1]
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        log.append([user("b")])
        assert [row.sequence for row in next(stream)[1]] == [2]
        log.append([user("c")])
        assert [row.sequence for row in next(stream)[1]] == [3]
    assert [rows for _, rows in stream] == [[]]


@pytest.mark.parametrize("end", ["closed", "exhausted"])
def test_a_follower_leaves_no_descriptor(home: Home, end: str) -> None:
    directories = [home.session(conversation()) for _ in range(3)]
    before = os.listdir("/proc/self/fd")
    stream = _follow(directories)
    next(stream)
    if end == "exhausted":
        assert len(list(stream)) > 3
    else:
        stream.close()  # type: ignore[attr-defined]
    assert os.listdir("/proc/self/fd") == before


def test_a_session_that_is_missing_closes_those_that_were_opened(home: Home) -> None:
    directories = [home.session(conversation()), home.directory()]
    closed: list[Session] = []
    with pytest.MonkeyPatch.context() as patch:
        close: Callable[[Reader], None] = Reader.close
        patch.setattr(Reader, "close", lambda self: (closed.append(self.session), close(self)))
        with pytest.raises(EventsMissing):
            list(_follow(directories))
    assert closed == [Session.at(directories[0])]


def test_an_idle_follower_takes_no_cpu(home: Home) -> None:
    directory = home.session(conversation(), state="active")
    with take_lock(directory), child(IDLES, directory) as idler:
        said, _ = idler.communicate(timeout=30)
    assert float(said) < 0.02


def test_a_row_that_comes_between_the_newest_and_the_rest_is_shown_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest rows end at the position from which the rest is followed."""
    directory = home.session([says("x") for _ in range(3)])
    read_last = Reader.last_sequence
    with take_lock(directory) as owner, Writer(owner, "general") as log:

        def last_sequence(reader: Reader) -> int:
            sequence = read_last(reader)
            if sequence < 8:
                log.append([says("x")])
            return sequence

        monkeypatch.setattr(Reader, "last_sequence", last_sequence)
        sequences: list[int] = []
        for batch in follow_home(EVERYTHING, 0, 2, on_damage=lambda error: None):
            sequences += [row.sequence for row in batch.rows]
            if 8 in sequences:
                break
    assert sequences == list(range(2, 9))
