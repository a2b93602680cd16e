"""What live sessions cost: a prompt, a stream of chunks, a resume, and the processes that stay."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agh_echo.plugin import RUN

from tests.bench import data
from tests.bench.measure import AGH, Figure, against_bare, resident
from tests.bench.starting import agh

ECHO = (sys.executable, "-P", "-c", RUN, "agh_echo")  # as agh starts it
CHUNKS = 10_000


@contextmanager
def session(place: Path, *args: str) -> Iterator[str]:
    """Yield a live session on the embedded agent, stopped at the end."""
    data.use(place)
    os.environ["AGH_ECHO_HOME"] = str(place.parent / "echo")
    result = subprocess.run(
        [AGH, "session", "new", "--agent", "echo", *args], capture_output=True, text=True, check=True
    )
    name = result.stdout.strip()
    try:
        yield name
    finally:
        agh("session", "stop", name)


def prompts(place: Path, quick: bool) -> Iterator[Figure]:
    rounds = 1 if quick else 25
    with session(place) as name:
        value, note = against_bare(rounds, lambda: agh("session", "prompt", name, "hello"))
        yield Figure("warm prompt, one chunk", value, "x", 5.5, note=note)
        yield Figure("keeper and leash, resident", sum(resident(processes(name))), "MB", 34)
    value, note = against_bare(rounds, lambda: agh("run", "--agent", "echo", "hello"))
    yield Figure("one-shot run", value, "x", note=note)


def chunks(place: Path, quick: bool) -> Iterator[Figure]:
    """Compare a turn of many chunks with a loop that reads the same stream from the agent."""
    count = 50 if quick else CHUNKS
    with session(place) as name, _agent() as bare:
        loops, turns = [], []
        for _ in range(1 if quick else 9):
            loops.append(bare.stream(count))
            start = time.perf_counter()
            result = subprocess.run(
                [AGH, "session", "prompt", name, f"/stream {count}", "-o", "text"],
                capture_output=True,
                check=True,
            )
            turns.append(time.perf_counter() - start)
            assert result.stdout.count(b"chunk") == count
    loop, turn = statistics.median(loops), statistics.median(turns)
    note = f"{turn * 1000:.0f} ms / {loop * 1000:.0f} ms"
    yield Figure(f"a turn of {count} chunks", turn / loop, "x the loop", 4, note=note)


def resumes(place: Path, quick: bool) -> Iterator[Figure]:
    with session(place) as name:
        agh("session", "prompt", name, "hello")

        def resume() -> Any:
            agh("session", "stop", name)
            return agh("session", "resume", name)

        value, note = against_bare(1 if quick else 11, resume)
    yield Figure("resume of a stopped session", value, "x", note=note)


class _agent:
    """The embedded agent with nothing in between."""

    def __enter__(self) -> _agent:
        self._process = subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._asked = 0
        self._ask("initialize", {"protocolVersion": 1})
        answer = json.loads(self._ask("session/new", {"cwd": "/", "mcpServers": []}))
        self._session = answer["result"]["sessionId"]
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)

    def stream(self, count: int) -> float:
        start = time.perf_counter()
        prompt = [{"type": "text", "text": f"/stream {count}"}]
        self._ask("session/prompt", {"sessionId": self._session, "prompt": prompt})
        return time.perf_counter() - start

    def _ask(self, method: str, params: dict[str, Any]) -> bytes:
        assert self._process.stdin and self._process.stdout
        self._asked += 1
        frame = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()
        answer = b'"id":%d' % self._asked
        while answer not in (line := self._process.stdout.readline()):
            assert line, "the agent is gone"
        return line


def processes(name: str) -> list[int]:
    """Return the keeper of a live session and its leash."""
    result = subprocess.run([AGH, "session", "status", name, "-o", "json"], capture_output=True, check=True)
    keeper = int(json.loads(result.stdout)["session"]["keeper"]["pid"])
    children = [
        int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == keeper
    ]
    assert len(children) == 1
    return [keeper, *children]


def _parent(stat: Path) -> int | None:
    """Return the parent of a process; None if it has just ended."""
    try:
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None
