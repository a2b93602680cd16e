"""A home with 200 live and 10,000 finished sessions: what each act takes there, and that none is lost."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.bench import data
from tests.bench.fleet import left
from tests.bench.measure import AGH, Figure, resident
from tests.bench.starting import show_top
from tests.support.processes import Process, processes
from tests.support.wait import wait_until

LIVE, FINISHED, AT_ONCE = 200, 10_000, 16
PATIENCE = 600.0


def crowd(place: Path, quick: bool) -> Iterator[Figure]:
    count, finished = (2, 80) if quick else (LIVE, FINISHED)
    data.many_sessions(place, finished, crashed=1)
    os.environ["AGH_ECHO_HOME"] = str(place.parent / "echo")
    names = [f"live-{number}" for number in range(count)]
    title = f"{count} live and {finished} finished sessions"
    yield from _use(names, title)
    yield from _read(names, title)
    yield from _lose(place, names, title)
    pruned, figure = _act(f"prune of {finished}, {title}", "session", "prune", "--keep", str(count))
    assert len(pruned.splitlines()) >= finished
    yield figure
    assert not left(place)


def _use(names: list[str], title: str) -> Iterator[Figure]:
    """Start all, follow all, and send each a prompt."""
    count = len(names)
    started = at_most([["new", "--agent", "echo", "--name", name] for name in names])
    yield _each(f"start of {count}, {AT_ONCE} at a time, {title}", started, count)
    with _follower("--last", "0") as follower:
        prompts = at_most([["prompt", name, f"/say hello {name}"] for name in names])
        yield _each(f"a prompt to each of {count}, {AT_ONCE} at a time, {title}", prompts, count)
        memory = max(resident([follower.pid]))
        turns = _count_ends(follower, count)
    assert turns == count
    yield Figure(f"events --all --follow, {title}", memory, "MB", note=f"it saw the end of all {count} turns")


def _read(names: list[str], title: str) -> Iterator[Figure]:
    """Look at the home in every way that reads all of it."""
    count = len(names)
    listed, figure = _act(f"list -o json --state active, {title}", "list", "--state", "active", "-o", "json")
    assert len(json.loads(listed)["sessions"]) == count
    yield figure
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with _lowered((256, limits[1])):
        text, figure = _act(f"list, 256 descriptors, {title}", "list")
        assert text.count("  idle") >= count
        yield figure
        with _follower("--last", "0") as follower:
            at_most([["prompt", name, "/say again"] for name in names])
            assert _count_ends(follower, count) == count
    yield _act(f"list --all, {title}", "list", "--all")[1]
    yield _act(f"inbox, {title}", "inbox", code=None)[1]
    yield _act(f"inbox --count, {title}", "inbox", "--count", code=None)[1]
    yield Figure(f"top to its first screen, {title}", show_top().wall, "s")
    offered, figure = _act(f"Tab: a name, {title}", "__complete", "session", "status", "session number 7")
    assert offered.count("session number 7") > 1
    yield figure
    yield from _serve(title)


def _serve(title: str) -> Iterator[Figure]:
    with subprocess.Popen(
        [AGH, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2])
        token = (Path(os.environ["AGH_HOME"]) / "serve.token").read_text().strip()
        headers = {"authorization": f"Bearer {token}", "accept-encoding": "gzip"}
        times = []
        for _ in range(5):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            start = time.perf_counter()
            connection.request("GET", "/api/sessions?all=true", headers=headers)
            response = connection.getresponse()
            body = response.read()
            times.append(time.perf_counter() - start)
            assert response.status == 200
            connection.close()
        server.send_signal(signal.SIGTERM)
    note = f"{len(body) / 1000:.1f} kB for the first 100"
    yield Figure(f"GET /api/sessions, {title}", sorted(times)[2], "s", note=note)


def _lose(place: Path, names: list[str], title: str) -> Iterator[Figure]:
    """Kill all keepers at once, and see that everything comes back; then stop it all."""
    count = len(names)
    keepers = [process.pid for process in processes() if _is_keeper(process, place)]
    assert len(keepers) == count
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    start = time.perf_counter()
    listed = json.loads(run("list", "--all", "-o", "json"))["sessions"]
    lost = [view for view in listed if view.get("name") in names]
    assert len(lost) == count and {view["badge"] for view in lost} == {"failed"}
    wait_until(lambda: not left(place), 30, "no agent is left")
    yield Figure(f"no process left after a kill of all keepers, {title}", time.perf_counter() - start, "s")
    repaired, figure = _act(f"repair --all, {title}", "session", "repair", "--all", code=None)
    assert len(re.findall("  repaired: ", repaired)) >= count
    yield figure
    resumed, figure = _act(f"resume --all of {count}, {title}", "resume", "--all")
    assert len(re.findall("  idle  live-", resumed)) == count
    yield figure
    assert run("resume", "--all") == ""
    at_most([["prompt", name, "/say back"] for name in names])
    stopped, figure = _act(f"stop --all of {count}, {title}", "stop", "--all")
    assert len(re.findall("  stopped  live-", stopped)) == count
    yield figure
    wait_until(lambda: not left(place), 30, "nothing is left")


def _is_keeper(process: Process, place: Path) -> bool:
    return process.environ.get("AGH_HOME") == str(place) and "agh.keeper.main" in process.argv


def run(*args: str, code: int | None = 0) -> str:
    """Run the program and return what it prints."""
    result = subprocess.run(
        [AGH, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert code is None or result.returncode == code, (args, result.returncode, result.stderr[-2000:])
    return result.stdout


def at_most(commands: Sequence[Sequence[str]]) -> float:
    """Run commands, some at a time, and return how long they took together."""
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda command: run("session", *command), commands))
    return time.perf_counter() - start


def _act(name: str, *args: str, code: int | None = 0) -> tuple[str, Figure]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    text = run(*args, code=code)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return text, Figure(name, wall, "s", note=f"{cpu:.2f} s of CPU time")


def _each(name: str, seconds: float, count: int) -> Figure:
    return Figure(name, seconds, "s", note=f"{seconds / count * 1000:.0f} ms each")


@contextmanager
def _follower(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a command that follows all sessions, once it has read what is there."""
    command = [AGH, "events", "--all", "--follow", "--type", "done", "-o", "jsonl", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(1)
        wait_until(lambda: _is_waiting(process.pid), 60, "it waits for news")
        yield process
        process.kill()


def _is_waiting(pid: int) -> bool:
    """Tell whether a process has used no processor for half a second."""

    def used() -> list[str]:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]

    before = used()
    time.sleep(0.5)
    return used() == before


def _count_ends(follower: subprocess.Popen[str], count: int) -> int:
    assert follower.stdout is not None
    ended = {json.loads(follower.stdout.readline())["session_id"] for _ in range(count)}
    return len(ended)


@contextmanager
def _lowered(limits: tuple[int, int]) -> Iterator[None]:
    """Let the programs that are started have few descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
