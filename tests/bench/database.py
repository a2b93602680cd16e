"""What one database of all sessions costs: building it, updating it, asking it."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from agh.store.writer import Writer
from tests.bench import data
from tests.bench.measure import AGH, Figure, taken
from tests.support.build import says, take_lock, user


def database(place: Path, quick: bool) -> Iterator[Figure]:
    count, length = (8, 50) if quick else (1000, 500)
    data.talkative_sessions(place, count, length)
    for path in (place / "sessions").rglob("*.*"):
        os.utime(path, (1, 1))  # what was written a moment ago would be read again
    events, rounds = f"{count} sessions, {count * length:,} events", 1 if quick else 9
    file = str(place.parent / "bench.db")
    built = taken((AGH, "db", "build", file))
    size = os.path.getsize(file) / 1e6
    note = f"{events}; by CPU time {built.cpu:.1f} s; {size:.0f} MB"
    yield Figure("db build, first", built.wall, "s", 60, note=note)
    times = []
    for number in range(rounds):
        with take_lock(place / "sessions" / f"sess-{7:012d}") as owner, Writer(owner, "claude") as log:
            turn = f"turn-more-{number}"
            log.append([user("more", turn=turn), says("and more", turn=turn)])
        times.append(taken((AGH, "db", "build", file)))
    wall = statistics.median(time.wall for time in times)
    cpu = statistics.fmean(time.cpu for time in times)
    note = f"{events}; by CPU time {cpu:.2f} s"
    yield Figure("db build, after one session has changed", wall, "s", 1, note=note)
    sql = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'rare03'"
    asked = statistics.median(taken((AGH, "db", "query", file, sql)).wall for _ in range(rounds))
    yield Figure("db query, a rare word", asked * 1000, "ms", note=events)
