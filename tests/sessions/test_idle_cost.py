"""What a live idle session costs."""

from __future__ import annotations

import time

from tests.support.live import Live
from tests.support.processes import cpu_ticks_of, memory_of

MEMORY = 34.0  # megabytes, keeper and leash together


def test_an_idle_session_is_light_and_quiet(live: Live) -> None:
    session = live.new()
    session.tell("hello")
    both = (session.keeper, session.leash)
    time.sleep(0.8)  # what follows a start and a turn is over
    before = [cpu_ticks_of(pid) for pid in both]
    time.sleep(2)
    assert [cpu_ticks_of(pid) for pid in both] == before
    keeper, leash = map(memory_of, both)
    print(f"keeper {keeper:.1f} MB, leash {leash:.1f} MB")
    assert keeper + leash <= MEMORY


def test_a_session_that_talked_much_is_still_light(live: Live) -> None:
    session = live.new()
    session.tell("/stream 5000")
    print(f"keeper {memory_of(session.keeper):.1f} MB")
    assert memory_of(session.keeper) + memory_of(session.leash) <= MEMORY + 6
