"""Timing programs: interleaved runs and medians, next to `python -c pass` of the same interpreter."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

AGH = str(Path(sys.executable).with_name("agh"))
BARE = (sys.executable, "-c", "pass")


class Figure(NamedTuple):
    """One line of the table. `limit` is what the issue asks for; `at_least` says which side of it is good."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        good = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "ok" if good else "MISSED"


class Taken(NamedTuple):
    """What a run took, in seconds: by the clock, and of the processor by it and its children."""

    wall: float
    cpu: float


def taken(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Taken:
    """Run a command once and discard its output; return what it took."""
    before, start = cpu_of_children(), time.perf_counter()
    nowhere = subprocess.DEVNULL
    subprocess.run(argv, env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=True)
    return Taken(time.perf_counter() - start, cpu_of_children() - before)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interleaved(rounds: int, *runs: Callable[[], Taken]) -> list[Taken]:
    """Return the median of each after one round that warms the caches; a busy moment hurts all of them alike.

    A single round is a trial of the bench itself: its figures mean nothing, so nothing is warmed for it.
    """
    if rounds > 1:
        for run in runs:
            run()
    columns = zip(*([run() for run in runs] for _ in range(rounds)), strict=True)
    return [
        Taken(
            statistics.median(value.wall for value in column), statistics.fmean(value.cpu for value in column)
        )
        for column in columns
    ]


def against_bare(rounds: int, run: Callable[[], Taken]) -> tuple[float, str]:
    """Return how many times longer than a bare interpreter a run takes, and in what times.

    On a busy machine the clock is unkind to the longer of two; the processor's time is steadier.
    """
    bare, ours = interleaved(rounds, lambda: taken(BARE), run)
    times = f"{ours.wall * 1000:.1f} ms / {bare.wall * 1000:.1f} ms"
    return ours.wall / bare.wall, f"{times}; by CPU time {ours.cpu / bare.cpu:.2f} x"


def peak_memory(argv: Sequence[str]) -> float:
    """Return the most resident memory that a run had, in MB.

    The kernel keeps the mark, but only while the process lives, so it is read without a pause: a short run
    has its peak in its last milliseconds.
    """
    highest = 0
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    highest = max(highest, int(line.split()[1]))
    assert process.returncode == 0
    return highest / 1024


def resident(pids: Sequence[int]) -> list[float]:
    """Return the memory of running processes, in MB."""
    sizes = []
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024)
    return sizes


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
