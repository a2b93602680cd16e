"""What a search costs: with a fresh index as a multiple of `python -c pass`, and the building of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from agh.store.writer import Writer
from tests.bench import data
from tests.bench.measure import AGH, Figure, Taken, against_bare, taken
from tests.support.build import says, take_lock

ASKED = {"a rare word": ["rare03"], "a prefix": ["common", "rare*"], "in every message": ["common"]}


def search(place: Path, quick: bool) -> Iterator[Figure]:
    count, length = (8, 50) if quick else (1000, 500)
    data.talkative_sessions(place, count, length)
    env = {**os.environ, "XDG_CACHE_HOME": str(place.parent / "cache")}
    events, rounds = f"{count} sessions, {count * length:,} events", 1 if quick else 25

    def ask(*words: str) -> tuple[str, ...]:
        return (AGH, "session", "search", "--all-workspaces", "-o", "json", *words)

    built = taken(ask("rare03"), env)
    note = f"{events}; {built.wall:.1f} s"
    yield Figure("search, first: the index is built", count * length / built.wall, "events/s", note=note)
    time.sleep(0.2)  # what was written a moment ago is looked at again
    taken(ask("rare03"), env)
    for name, words in ASKED.items():
        value, note = against_bare(rounds, lambda words=words: taken(ask(*words), env))
        yield Figure(f"search, {name}", value, "x", 12, note=f"{events}; {note}")

    def after_a_turn() -> Taken:
        directory = place / "sessions" / f"sess-{7:012d}"
        with take_lock(directory) as owner, Writer(owner, "claude") as log:
            log.append([says("one more")])
        return taken(ask("rare03"), env)

    value, note = against_bare(rounds, after_a_turn)
    yield Figure("search, after one session has changed", value, "x", note=note)
