"""What must not grow with the log: the same command on a short session and on one of a million events."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.bench import data
from tests.bench.live import processes
from tests.bench.measure import Figure, Taken, interleaved, resident
from tests.bench.starting import agh

LIMIT = 1.5


def growth(place: Path, quick: bool) -> Iterator[Figure]:
    few, many = 100, 1_000 if quick else 1_000_000
    rounds = 1 if quick else 11
    os.environ["AGH_ECHO_HOME"] = str(place.parent / "echo")
    homes = []
    for count in (few, many):
        home = place.parent / f"log-{count}"
        data.long_log(home, count, agent_name="echo", command=None, workspace_path=str(place.parent))
        homes.append(home)

    def compare(name: str, *args: str, ready: tuple[str, ...] = ()) -> Figure:
        def run(home: Path) -> Taken:
            data.use(home)
            if ready:
                agh("session", *ready)
            return agh("session", *args)

        short, long = interleaved(rounds, lambda: run(homes[0]), lambda: run(homes[1]))
        note = f"{short.wall * 1000:.1f} ms at {few} events, {long.wall * 1000:.1f} ms at {many}"
        return Figure(f"{name}, {many} events", long.wall / short.wall, f"x {few}", LIMIT, note=note)

    name = data.ROWS_ID
    yield compare("status", "status", name)
    yield compare("recap", "recap", name)
    yield compare("events --last 10", "events", name, "--last", "10")
    yield compare("resume", "resume", name, "--agent", "echo", "--fresh", ready=("stop", name))
    yield compare("prompt", "prompt", name, "hello")
    memory = []
    for home in homes:
        data.use(home)
        memory.append(resident(processes(name)[:1])[0])
    note = f"{memory[0]:.1f} MB and {memory[1]:.1f} MB"
    yield Figure(f"keeper, resident, {many} events", memory[1] / memory[0], f"x {few}", LIMIT, note=note)
    for home in homes:
        data.use(home)
        agh("session", "stop", name)
        shutil.rmtree(home)
