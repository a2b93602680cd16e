"""What a one-shot command costs, as a multiple of `python -c pass`."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from agh.store.caches.stamp import SETTLED_NS
from tests.bench import data
from tests.bench.measure import AGH, Figure, Taken, against_bare, cpu_of_children, taken

LIBRARIES = (sys.executable, "-c", "import click, orjson, sqlite3")  # what every command that reads needs


def agh(*args: str) -> Taken:
    return taken([AGH, *args], os.environ)


def version(place: Path, quick: bool) -> Iterator[Figure]:
    value, note = against_bare(1 if quick else 60, lambda: agh("--version"))
    yield Figure("agh --version", value, "x", 1.4, note=note)


def listing_json(place: Path, quick: bool) -> Iterator[Figure]:
    count = 20 if quick else 1000
    _many_old_sessions(place, count, quick)
    floor, note = against_bare(1 if quick else 25, lambda: taken(LIBRARIES))
    yield Figure("floor: import click, orjson, sqlite3", floor, "x", note=note)
    value, note = against_bare(1 if quick else 25, lambda: agh("session", "list", "-o", "json"))
    yield Figure(f"session list -o json, {count} sessions", value, "x", floor + 0.8, note=note)
    value, note = against_bare(
        1 if quick else 25, lambda: agh("session", "status", f"sess-{1:012d}", "-o", "json")
    )
    yield Figure("session status -o json", value, "x", floor + 0.3, note=note)


def counting_inbox(place: Path, quick: bool) -> Iterator[Figure]:
    count = 20 if quick else 1000
    data.many_sessions(place, count)
    data.fail_sessions(place, waiting := 2 if quick else count // 50)
    value, note = against_bare(1 if quick else 41, lambda: agh("inbox", "--count"))
    name = f"inbox --count, {count} sessions of which {waiting} wait"
    yield Figure(name, value, "x", 3, note=note)


def listing_human(place: Path, quick: bool) -> Iterator[Figure]:
    count = 30 if quick else 10_000
    _many_old_sessions(place, count, quick)
    rounds = 1 if quick else 11
    args = ("session", "list", "--all")
    value, note = against_bare(rounds, lambda: agh(*args))
    yield Figure(f"session list --all, {count} sessions", value, "x", 9, note=note)
    value, note = against_bare(rounds, lambda: agh(*args, "-o", "json"))
    yield Figure(f"session list --all -o json, {count} sessions", value, "x", 12, note=note)
    value, note = against_bare(rounds, lambda: agh(*args, "-o", "json", "--limit", "1"))
    yield Figure(f"session list --all -o json --limit 1, {count} sessions", value, "x", 9, note=note)
    value, note = against_bare(rounds, lambda: _on_terminal(*args))
    yield Figure(f"session list --all on a terminal, {count} sessions", value, "x", 15, note=note)


def first_screen(place: Path, quick: bool) -> Iterator[Figure]:
    count = 10 if quick else 100
    data.many_sessions(place, count)
    value, note = against_bare(1 if quick else 15, show_top)
    yield Figure(f"agh top to its first screen, {count} sessions", value, "x", 30, note=note)


def repairing(place: Path, quick: bool) -> Iterator[Figure]:
    count = 20 if quick else 1000
    _many_old_sessions(place, count, quick, crashed=count // 2)
    value, note = against_bare(1 if quick else 11, lambda: agh("session", "repair", "--all", "--dry-run"))
    yield Figure(f"repair --all --dry-run, {count} sessions", value, "x", 60, note=note)


def completing(place: Path, quick: bool) -> Iterator[Figure]:
    count = 20 if quick else 1000
    _many_old_sessions(place, count, quick)
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


def show_top() -> Taken:
    """Start `agh top`, and quit when the last line of its first screen is there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color"}
    before, start = cpu_of_children(), time.perf_counter()
    with subprocess.Popen(
        [AGH, "top", "--all"], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        screen = b""
        while b"q quit" not in screen:
            screen += os.read(ours, 65536)
        wall = time.perf_counter() - start
        os.write(ours, b"q")
        try:
            while os.read(ours, 65536):
                pass
        except OSError:  # EIO: the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return Taken(wall, cpu_of_children() - before)


def _many_old_sessions(place: Path, count: int, quick: bool, crashed: int = 0) -> None:
    """Write sessions, and wait: no cache stores sessions that have just changed, and most have not."""
    data.many_sessions(place, count, crashed=crashed)
    if not quick:
        time.sleep(SETTLED_NS / 1e9)


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
