"""Two hundred followers of one live session: all get everything in order, soon, and the turn is no slower."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.plugins.serve.server import Server
from tests.support.live import Live, Session
from tests.support.processes import cpu_ticks_of

FOLLOWERS = 200
TURN = "/stream 150 0.02 60"
ROUNDS = 5


@contextmanager
def followers(server: Server, session: Session) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("followers.py")
    path = f"/api/sessions/{session.id}/stream"
    argv = [sys.executable, str(script), str(server.port), path, str(FOLLOWERS), str(last_sequence(session))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(server.token + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def last_sequence(session: Session) -> int:
    return int(session.fetch("SELECT max(sequence) FROM events")[0][0])


def seconds(session: Session, text: str) -> float:
    """Return how long a turn took, by the log."""
    turn = session.send(text)
    while not session.has_ended(turn):
        session.agh("wait", "--until", "idle", "--timeout", "60s")
    rows = session.fetch("SELECT min(timestamp), max(timestamp) FROM events WHERE turn_id = ?", turn)
    first, last = (datetime.fromisoformat(at) for at in rows[0])
    return (last - first).total_seconds()


def followed_turn(server: Server, session: Session, text: str) -> tuple[float, dict[str, float]]:
    with followers(server, session) as process:
        first = last_sequence(session) + 1
        before = cpu_ticks_of(server.process.pid)
        duration = seconds(session, text)
        used = (cpu_ticks_of(server.process.pid) - before) / 100
        out, _ = process.communicate(f"{first} {last_sequence(session)}\n", timeout=90)
    got = json.loads(out)
    assert got["complete"] == FOLLOWERS
    return duration, {**got, "cpu": used}


def test_many_followers(live: Live, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    session = live.new()
    alone, followed, medians = [], [], []
    seconds(session, "warm up")
    for _ in range(ROUNDS):
        alone.append(seconds(session, TURN))
        duration, got = followed_turn(server, session, TURN)
        followed.append(duration)
        medians.append(got["median"])
        with capsys.disabled():
            print(
                f"\nalone {alone[-1]:.2f} s, followed {duration:.2f} s; "
                f"the server used {got['cpu']:.2f} s of CPU; {got['rows']} rows; "
                f"delay {got['median'] * 1000:.1f} ms, p99 {got['p99'] * 1000:.1f} ms"
            )
    slower = statistics.median(followed) / statistics.median(alone) - 1
    with capsys.disabled():
        print(f"slower by {slower:.1%}")
    assert statistics.median(medians) <= 0.05
    assert slower <= 0.1


def test_a_flood_reaches_everyone(live: Live, server: Server) -> None:
    session = live.new()
    seconds(session, "warm up")
    followed_turn(server, session, "/stream 1000")
