"""How often a fault is tried, and with which luck.

`rounds(n)` gives n rounds, each its own source of chance; in a soak (AGH_SOAK=full) as many as fit into the
test's share of AGH_SOAK_MINUTES. Every round is repeatable: its luck depends on the seed, the test and the
number of the round alone. The seed is AGH_SEED, else 1, in a soak a new one; it is printed with the number of
the last round, so that a failure names both.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

SOAK = os.environ.get("AGH_SOAK") == "full"
MINUTES = float(os.environ.get("AGH_SOAK_MINUTES", "60"))
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or os.urandom(4).hex()  # the same in every worker
SEED = int(os.environ.get("AGH_SEED") or (int(RUN[:7], 16) if SOAK else 1))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
SLACK = 120.0  # seconds for the round that is under way when the time is up, and for the end


class Round(NamedTuple):
    number: int
    chance: random.Random


class Rounds:
    """`last` is the number of the last round; `seconds` is None but in a soak."""

    def __init__(self, name: str, seconds: float | None) -> None:
        self.name, self.seconds = name, seconds
        self.last = 0

    def __call__(self, count: int) -> Iterator[Round]:
        end = time.monotonic() + (self.seconds or 0)
        while time.monotonic() < end if self.seconds is not None else self.last < count:
            self.last += 1
            yield Round(self.last, random.Random(f"{SEED} {self.name} {self.last}"))


def share_out(items: list[pytest.Item]) -> None:
    """In a soak, give every test that is marked with it an equal share of the time, and enough of a limit."""
    soaking = [item for item in items if item.get_closest_marker("soak")]
    if SOAK and soaking:
        seconds = MINUTES * 60 * WORKERS / len(soaking)
        for item in soaking:
            item.stash[SECONDS] = seconds
            item.add_marker(pytest.mark.timeout(seconds + SLACK), append=False)  # before its own


SECONDS = pytest.StashKey[float]()


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Iterator[Rounds]:
    rounds = Rounds(request.node.nodeid, request.node.stash.get(SECONDS, None))
    yield rounds
    print(f"AGH_SEED={SEED}: {rounds.last} rounds of {request.node.name}")
