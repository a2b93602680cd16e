"""Nothing that was shown is ever missing: the keeper is killed at a random moment of a streaming turn."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.live import Live
from tests.support.processes import kill
from tests.support.rounds import Rounds

CHUNKS = 150


@pytest.mark.slow
@pytest.mark.soak
def test_every_line_that_reached_stdout_is_in_the_log(live: Live, rounds: Rounds) -> None:
    session = live.new()
    shown: list[bytes] = []
    cut = 0
    for _, chance in rounds(6):
        after = chance.randrange(1, CHUNKS)
        with session.start_prompt(f"/stream {CHUNKS} 0.001", "-o", "jsonl") as watcher:
            assert watcher.stdout
            lines = [watcher.stdout.readline() for _ in range(after)]
            keeper = session.meta()["keeper"]["pid"]
            time.sleep(chance.random() * 0.005)
            kill(keeper)
            lines += watcher.stdout.readlines()
            cut += watcher.wait(60) == 7
            assert watcher.returncode in (0, 7)
        assert [line for line in lines if not line.endswith(b"\n")] == [], "a torn line"
        shown += lines
    assert session.say("still here") == "echo: still here"
    stored = session.agh("events", "-o", "jsonl").stdout.encode().splitlines(keepends=True)
    assert len(shown) == len(set(shown))
    assert set(shown) <= set(stored)
    assert [json.loads(line)["sequence"] for line in stored] == list(range(1, len(stored) + 1))
    session.check_log()
    assert cut > rounds.last / 2, "the keeper was killed while it streamed"
    print(f"{len(shown)} lines were shown in {rounds.last} rounds, {cut} of them cut short; none is missing")
