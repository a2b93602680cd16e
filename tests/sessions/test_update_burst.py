"""A burst of identical tool updates neither kills the session nor bloats its keeper."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sessions.flood_agent import COUNT
from tests.support.live import Live
from tests.support.processes import memory_of
from tests.support.wait import wait_until

FLOOD = Path(__file__).with_name("flood_agent.py")
MEMORY = 16.0  # megabytes more than before


@pytest.mark.slow
def test_a_hundred_thousand_updates(live: Live) -> None:
    result = live.agh("session", "new", "--command", f"{sys.executable} {FLOOD}")
    session = live.session(result.stdout.strip())
    session.tell("one")
    keeper = session.keeper
    before = memory_of(keeper, "VmHWM")
    session.send("flood")
    wait_until(lambda: session.fetch("SELECT count(*) FROM events WHERE type = 'done'") == [(2,)], 60)
    ((stored,),) = session.fetch("SELECT count(*) FROM events WHERE type = 'tool_call'")
    assert stored == COUNT + 2, "every one is kept"
    most = memory_of(keeper, "VmHWM")
    print(f"keeper {before:.1f} MB before, at most {most:.1f} MB")
    assert most - before <= MEMORY
    session.send("one")
    wait_until(lambda: session.fetch("SELECT count(*) FROM events WHERE type = 'done'") == [(3,)])
    assert session.keeper == keeper
    ((first, last, count),) = session.fetch("SELECT min(sequence), max(sequence), count(*) FROM events")
    assert (first, last) == (1, count)
