"""What a one-shot command costs, as a multiple of `python -c pass`."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import data
from tests.bench.measure import AGH, Figure, Taken, against_bare, cpu_of_children, taken


def agh(*args: str) -> Taken:
    return taken([AGH, *args], os.environ)


def version(place: Path, quick: bool) -> Iterator[Figure]:
    value, note = against_bare(2 if quick else 60, lambda: agh("--version"))
    yield Figure("agh --version", value, "x", 1.4, note=note)


def listing_json(place: Path, quick: bool) -> Iterator[Figure]:
    count = 100 if quick else 1000
    data.many_sessions(place, count)
    value, note = against_bare(1 if quick else 25, lambda: agh("session", "list", "-o", "json"))
    yield Figure(f"session list -o json, {count} sessions", value, "x", 7, note=note)
    value, note = against_bare(
        1 if quick else 25, lambda: agh("session", "status", f"sess-{1:012d}", "-o", "json")
    )
    yield Figure("session status -o json", value, "x", note=note)


def listing_human(place: Path, quick: bool) -> Iterator[Figure]:
    count = 300 if quick else 10_000
    data.many_sessions(place, count)
    rounds = 1 if quick else 11
    args = ("session", "list", "--all")
    value, note = against_bare(rounds, lambda: agh(*args))
    yield Figure(f"session list --all, {count} sessions", value, "x", 25, note=note)
    value, note = against_bare(rounds, lambda: _on_terminal(*args))
    yield Figure(f"the same on a terminal, {count} sessions", value, "x", 25, note=note)


def repairing(place: Path, quick: bool) -> Iterator[Figure]:
    count = 60 if quick else 1000
    data.many_sessions(place, count, crashed=count // 2)
    value, note = against_bare(1 if quick else 11, lambda: agh("session", "repair", "--all", "--dry-run"))
    yield Figure(f"repair --all --dry-run, {count} sessions", value, "x", 60, note=note)


def completing(place: Path, quick: bool) -> Iterator[Figure]:
    count = 100 if quick else 1000
    data.many_sessions(place, count)
    asked = {
        f"Tab: a session of {count}": ("session", "status", ""),
        "Tab: an agent": ("run", "--agent", ""),
        f"Tab: a workspace, {count} sessions": ("run", "--workspace", ""),
        "Tab: a type of event": ("session", "events", "--type", ""),
        "Tab: a command": ("",),
    }
    for name, words in asked.items():
        value, note = against_bare(1 if quick else 25, lambda words=words: agh("__complete", *words))  # type: ignore[misc]
        yield Figure(name, value, "x", 6, note=note)


def _on_terminal(*args: str) -> Taken:
    ours, theirs = pty.openpty()
    before, start = cpu_of_children(), time.perf_counter()
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [AGH, *args], env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            while os.read(ours, 65536):
                pass
        except OSError:  # EIO: the other side is closed
            pass
        process.wait()
    wall = time.perf_counter() - start
    os.close(ours)
    assert process.returncode == 0
    return Taken(wall, cpu_of_children() - before)
