"""Side by side with what a user could pick instead, on the same agent, data and machine.

`make peers` installs acpx below build/; the sqlite3 program is used where it is there. Nothing of a peer
that is missing is measured. A peer's background process is ended at the end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import data
from tests.bench.live import CHUNKS, ECHO, processes, session
from tests.bench.measure import AGH, Figure, Taken, interleaved, resident, taken
from tests.bench.starting import agh
from tests.support.wait import wait_until

PLACE = Path(__file__).parents[2] / "build" / "peers" / "node_modules" / ".bin"


def acpx(place: Path, quick: bool) -> Iterator[Figure]:
    """acpx, with a raw agent command: each figure says how many times faster or smaller agh is."""
    program = shutil.which("acpx", path=f"{PLACE}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        return
    rounds = 1 if quick else 7
    count = 20 if quick else 100
    chunks = 200 if quick else CHUNKS
    place.parent.mkdir(parents=True, exist_ok=True)
    home = place.parent / "home"
    home.mkdir()
    env = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}",
        "AGH_ECHO_HOME": str(place.parent / "echo"),
    }

    def theirs(*args: str) -> Taken:
        return taken([program, "--cwd", str(home), "--agent", shlex.join(ECHO), *args], env)

    def compare(
        name: str, limit: float | None, ours: Callable[[], Taken], peer: Callable[[], Taken]
    ) -> Figure:
        us, them = interleaved(rounds, ours, peer)
        note = f"acpx {them.wall * 1000:.0f} ms, agh {us.wall * 1000:.0f} ms"
        return Figure(f"against acpx: {name}", them.wall / us.wall, "x faster", limit, True, note)

    yield compare("--version", None, lambda: agh("--version"), lambda: taken([program, "--version"], env))
    with session(place) as name, _background(home) as owner:
        theirs("sessions", "new")
        theirs("prompt", "hello")
        yield compare(
            "warm prompt",
            8,
            lambda: agh("session", "prompt", name, "hello"),
            lambda: theirs("prompt", "hello"),
        )
        memory = resident([owner()])[0], sum(resident(processes(name)))
        note = f"acpx {memory[0]:.0f} MB, agh {memory[1]:.0f} MB (keeper and leash)"
        yield Figure("against acpx: background memory", memory[0] / memory[1], "x smaller", 3, True, note)
        yield compare(
            f"a turn of {chunks} chunks",
            2,
            lambda: agh("session", "prompt", name, f"/stream {chunks}", "-o", "text"),
            lambda: theirs("--format", "quiet", "prompt", f"/stream {chunks}"),
        )
        yield compare(
            "one-shot run", 3, lambda: agh("run", "--agent", "echo", "hello"), lambda: theirs("exec", "hello")
        )
        _copies(home / ".acpx" / "sessions", count)
        data.many_sessions(place.parent / "listed", count)
        yield compare(
            f"sessions list, {count} sessions",
            5,
            lambda: agh("session", "list", "--all"),
            lambda: theirs("sessions", "list", "--local"),
        )
        data.use(place)


def dumps(place: Path, quick: bool) -> Iterator[Figure]:
    """Yield the same rows by the sqlite3 program, and the same bytes by cat."""
    count = 1_000 if quick else 1_000_000
    directory = data.long_log(place, count)
    printed = place.parent / "printed.jsonl"
    ours = [AGH, "session", "events", data.ROWS_ID]
    with printed.open("wb") as target:
        subprocess.run(ours, stdin=subprocess.DEVNULL, stdout=target, check=True)
    rivals = {"cat of the same bytes": ["cat", str(printed)]}
    if program := shutil.which("sqlite3"):
        rivals["sqlite3 -json"] = [
            program,
            "-readonly",
            "-json",
            str(directory / "events.db"),
            "SELECT * FROM events",
        ]
    for name, argv in rivals.items():
        us, them = interleaved(1 if quick else 3, lambda: taken(ours), lambda argv=argv: taken(argv))  # type: ignore[misc]
        note = f"agh {us.wall:.2f} s, {argv[0].rsplit('/', 1)[-1]} {them.wall:.2f} s"
        limit = 1.0 if name == "sqlite3 -json" else None
        share = them.wall / us.wall
        yield Figure(f"events, {count} rows, against {name}", share, "of its speed", limit, True, note)


@contextmanager
def _background(home: Path) -> Iterator[Callable[[], int]]:
    """Finds acpx's background process by the home that it was given; ends it afterwards."""

    def find() -> int:
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                mine = f"HOME={home}".encode() in environ.read_bytes().split(b"\0")
                if mine and b"__queue-owner" in (environ.parent / "cmdline").read_bytes():
                    return int(environ.parent.name)
            except OSError:
                continue
        raise AssertionError("acpx has no background process")

    try:
        yield find
    finally:
        owner = find()
        os.kill(owner, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{owner}").exists(), what="it no longer writes to its home")


def _copies(sessions: Path, count: int) -> None:
    """As many records as asked for, copied from the first."""
    (first,) = [path for path in sessions.glob("*.json") if path.name != "index.json"]
    text = first.read_text()
    old = first.stem
    for number in range(count - 1):
        new = f"{number:08x}{old[8:]}"
        copied = json.loads(text.replace(old, new))
        (sessions / f"{new}.json").write_text(json.dumps(copied))
