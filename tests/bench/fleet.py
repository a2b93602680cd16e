"""Many sessions at once on one machine: all started, all prompted, all stopped; then nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench import data
from tests.bench.measure import AGH, Figure
from tests.support.processes import children_of, processes
from tests.support.wait import wait_until

COUNT = 50


def fleet(place: Path, quick: bool) -> Iterator[Figure]:
    count = 2 if quick else COUNT
    data.use(place)
    os.environ["AGH_ECHO_HOME"] = str(place.parent / "echo")
    seconds, said = at_once([["new", "--agent", "echo"] for _ in range(count)])
    names = [text.strip() for text in said]
    try:
        yield _figure(f"{count} sessions started at once", seconds, count)
        seconds, said = at_once([["prompt", name, f"hello {name}", "-o", "text"] for name in names])
        assert [text.strip() for text in said] == [f"echo: hello {name}" for name in names]
        yield _figure(f"{count} prompts answered at once", seconds, count)
        trees = [tree_of(place, name) for name in names]
        shared = sum(proportional(pid) for tree in trees for pid in tree) / count
        note = "keeper, leash and agent; pages that they share are counted once"
        yield Figure(f"memory of each of {count} live sessions", shared, "MB", note=note)
    finally:
        seconds, _ = at_once([["stop", name] for name in names])
    yield _figure(f"{count} sessions stopped at once", seconds, count)
    wait_until(lambda: not left(place), 5, "nothing is left")


def left(place: Path) -> list[int]:
    return [process.pid for process in processes() if process.environ.get("AGH_HOME") == str(place)]


def at_once(commands: Sequence[Sequence[str]]) -> tuple[float, list[str]]:
    """Return how long they took all together, and what each said."""
    start = time.perf_counter()
    started = [
        subprocess.Popen(
            [AGH, "session", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        for command in commands
    ]
    outputs = [process.communicate(timeout=300)[0] for process in started]
    assert not any(process.returncode for process in started), outputs
    return time.perf_counter() - start, outputs


def tree_of(place: Path, name: str) -> list[int]:
    """Return a session's keeper, its leash and its agent."""
    keeper = json.loads((place / "sessions" / name / "meta.json").read_text())["keeper"]["pid"]
    found, roots = [keeper], [keeper]
    while roots:
        below = children_of(roots.pop())
        found += below
        roots += below
    assert len(found) == 3
    return found


def proportional(pid: int) -> float:
    """Return the memory of a process in MB, what it shares with others divided among them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _figure(name: str, taken: float, count: int) -> Figure:
    return Figure(name, taken, "s", note=f"{taken / count * 1000:.0f} ms each")
