"""How soon a committed event is on a follower's stdout, what waiting costs, how fast events are stored."""

from __future__ import annotations

import random
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agh.home import Session
from agh.store.create import create_log
from agh.store.lock import take
from agh.store.writer import Writer
from tests.bench import data
from tests.bench.measure import AGH, Figure, percentile
from tests.support.build import says

POLLING = """
import sys
from agh.store import watch
watch._inotify_init = lambda: -1
watch._POLL = 0.02
from agh.cli.main import main
sys.argv[0] = "agh"
main()
"""
FOLLOW = ("session", "events", "sess-live000000", "--follow", "--last", "1")
LONGEST_WAIT = 5.0


@contextmanager
def _live(place: Path) -> Iterator[Writer]:
    """Yield a session that someone holds, with an event in it."""
    directory = data.use(place).directory(id="sess-live000000", state="active", stop_reason=None)
    owner = take(Session.at(directory))
    assert owner is not None
    with owner:
        create_log(owner)
        with Writer(owner, "claude") as log:
            log.append([says("first")])
            yield log


@contextmanager
def _follower(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a follower that has shown the backlog and now waits."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            _line(process)
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], LONGEST_WAIT)[0], "the follower is silent"
    assert process.stdout.read(65536).endswith(b"\n")


def latency(place: Path, quick: bool) -> Iterator[Figure]:
    count = 10 if quick else 1000
    with _live(place) as log:
        for name, argv, limits in (
            ("inotify", [AGH, *FOLLOW], (2.0, 15.0)),
            ("20 ms polling", [sys.executable, "-c", POLLING, *FOLLOW], (None, None)),
        ):
            with _follower(argv) as process:
                times = sorted(_one(log, process) for _ in range(count))
            note = f"{count} commits, worst {times[-1]:.2f} ms"
            yield Figure(f"follow, {name}, median", statistics.median(times), "ms", limits[0], note=note)
            yield Figure(f"follow, {name}, p99", percentile(times, 0.99), "ms", limits[1], note=note)


def _one(log: Writer, process: subprocess.Popen[bytes]) -> float:
    """Milliseconds from a finished commit to its line, after a pause that is never the same."""
    time.sleep(random.uniform(0.001, 0.04))
    log.append([says("a chunk of an answer that goes on for a while, as answers do")])
    start = time.perf_counter()
    _line(process)
    return (time.perf_counter() - start) * 1000


def idle(place: Path, quick: bool) -> Iterator[Figure]:
    window = 1.0 if quick else 10.0
    with _live(place):
        for name, argv, limit in (
            ("inotify", [AGH, *FOLLOW], 0.1),
            ("20 ms polling", [sys.executable, "-c", POLLING, *FOLLOW], None),
        ):
            with _follower(argv) as process:
                time.sleep(0.2)  # it looks again a few times after it found something
                before, start = _cpu(process.pid), time.perf_counter()
                time.sleep(window)
                used = (_cpu(process.pid) - before) / (time.perf_counter() - start)
            yield Figure(f"idle follower, {name}", used * 100, "% CPU", limit, note=f"over {window:.0f} s")


def _cpu(pid: int) -> float:
    """Seconds on a CPU so far, by the scheduler's own count."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def append(place: Path, quick: bool) -> Iterator[Figure]:
    with _live(place) as log:
        for size, batches in (
            (1, 20 if quick else 3000),
            (100, 5 if quick else 500),
            (1000, 3 if quick else 100),
        ):
            drafts = [
                says(f"chunk {n} of an answer that goes on for a while, as answers do") for n in range(size)
            ]
            start = time.perf_counter()
            for _ in range(batches):
                log.append(drafts)
            taken = time.perf_counter() - start
            note = f"{batches} commits, {taken / batches * 1000:.2f} ms each"
            name = f"append, {size} event{'s' * (size > 1)} a commit"
            yield Figure(name, size * batches / taken, "events/s", note=note)
