"""How soon the exit of an agent in another place is noticed, with each userland that this machine has."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from agh_places import far

from agh.adapters.agents import AgentRecord
from agh.adapters.launch import Launch
from tests.bench.measure import Figure
from tests.support.userland import BUILT, NAMES, install

LIMIT = 200.0  # milliseconds


def noticing(place: Path, quick: bool) -> Iterator[Figure]:
    count = 1 if quick else 20
    place.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        if shutil.which(name, path=f"{os.environ['PATH']}:{BUILT}"):
            userland = install(name, place / name)
            times = [_exit_once(userland.shell, userland.environ, f"{name}{n}") for n in range(count)]
            note = f"{count} exits, worst {max(times):.0f} ms"
            yield Figure(f"exit of a far agent, {name}", statistics.median(times), "ms", LIMIT, note=note)


def _exit_once(shell: str, environ: dict[str, str], run: str) -> float:
    """Return the milliseconds from the line that makes the agent exit to the end of the wire."""
    argv = ("sh", "-c", "echo up; read -r line; exit 3")
    variables = {"AGH_LAUNCH": run, "AGH_SESSION_ID": "sess-bench"}
    launch = Launch(AgentRecord("bot", argv), [*argv], variables, "/", session_id="sess-bench", cwd="/")
    preamble = far.build_preamble(launch, ())
    with subprocess.Popen(
        [shell, *far.build_shell_argv(preamble)[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        start_new_session=True,
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write(preamble)
        process.stdin.flush()
        assert process.stdout.readline() == b"up\n"
        start = time.perf_counter()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(20) == 3
        return (time.perf_counter() - start) * 1000
