"""`agh session events ID` over a long log, against the loop that one would write by hand."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench import data
from tests.bench.measure import AGH, Figure, Taken, interleaved, peak_memory, taken

BY_HAND = """
import sqlite3, sys
write = sys.stdout.buffer.write
rows = sqlite3.connect(f"file:{sys.argv[1]}/events.db?mode=ro", uri=True).execute(
    "SELECT sequence, turn_id, type, agent_name, content, timestamp FROM events ORDER BY sequence")
for sequence, turn, type, agent, content, at in rows:
    write((f'{{"id":"evt-{sequence:06d}","session_id":"SESSION","sequence":{sequence},"turn_id":"{turn}",'
        f'"type":"{type}","agent_name":"{agent}","workspace_id":"repo-alpha",'
        f'"workspace_path":"/absolute/path/to/repo","content":{content},"timestamp":"{at}"}}\\n').encode())
""".replace("SESSION", data.ROWS_ID)


def dump(place: Path, quick: bool) -> Iterator[Figure]:
    count = 1_000 if quick else 1_000_000
    directory = data.long_log(place, count)
    ours = [AGH, "session", "events", data.ROWS_ID]
    hand = [sys.executable, "-c", BY_HAND, str(directory)]
    size, digest = _digest(ours)
    assert (size, digest) == _digest(hand), "the loop by hand must print the same bytes"
    rounds = 1 if quick else 3
    for where, run in (("to /dev/null", taken), ("in a pipe", _piped)):
        by_hand, by_us = interleaved(rounds, partial(run, hand), partial(run, ours))
        note = f"{by_us.wall:.2f} s, {count / by_us.wall / 1e6:.2f} M rows/s; by hand {by_hand.wall:.2f} s"
        note += f"; by CPU time {by_hand.cpu / by_us.cpu:.2f}"
        name = f"events, {count} rows, {where}"
        yield Figure(name, by_hand.wall / by_us.wall, "of the speed by hand", 0.5, True, note)
    memory = peak_memory(ours)
    yield Figure(f"events, {count} rows, peak memory", memory, "MB", 60)
    few = peak_memory([*ours, "--last", "1000"])
    note = "close to the row above: memory does not grow with the log"
    yield Figure("events --last 1000, peak memory", few, "MB", 60, note=note)


def _piped(argv: Sequence[str]) -> Taken:
    """Run it with a reader behind it."""
    return taken(["bash", "-c", '"$@" | cat > /dev/null', "bash", *argv], os.environ)


def _digest(argv: Sequence[str]) -> tuple[int, str]:
    made, size = hashlib.sha256(), 0
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 20):
            made.update(piece)
            size += len(piece)
    assert process.returncode == 0
    return size, made.hexdigest()
