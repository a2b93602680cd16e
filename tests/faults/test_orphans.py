"""Keeper and leash killed together: nobody is left who knows the launch. The next command ends what escaped.

The shapes are those of real agents: a wrapper that waits for its child the way npx does, an agent that is
deaf to the end of its input and to SIGTERM, a tool in a session of its own, a command in a terminal of ours.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.support.live import Live, Session
from tests.support.processes import Process, carrying, children_of, kill
from tests.support.wait import wait_until

SHAPES = {
    "plain": (),
    "wrapper": ("--wrapper",),
    "deaf": ("--deaf",),
    "deaf below a wrapper": ("--wrapper", "--deaf"),
}


def kill_both(session: Session) -> str:
    """SIGKILL to the keeper and every leash of it, before either can act on the other's death; the launch
    cookie of what they leave behind."""
    cookie, keeper = session.cookie, session.keeper
    os.kill(keeper, signal.SIGSTOP)
    for pid in [*children_of(keeper), keeper]:
        kill(pid)
    wait_until(lambda: not session.is_live())
    return cookie


def programs(found: list[Process]) -> set[str]:
    return {"sleep" if "sleep" in item.argv else "agent" for item in found}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_next_prompt_ends_what_is_left(live: Live, shape: str) -> None:
    session = live.new(*SHAPES[shape], args=("--permissions", "approve-all"))
    session.send("/spawn-setsid 300\n/spawn-setsid 300 keep-stdout\n/run setsid sleep 300 & sleep 300")
    wait_until(
        lambda: (
            len([process for process in carrying(session.cookie) if process.argv == ["sleep", "300"]]) == 4
        )
    )
    old = kill_both(session)
    wait_until(lambda: "sleep" in programs(carrying(old)), what="something has escaped")
    if shape == "deaf below a wrapper":
        wait_until(lambda: "agent" in programs(carrying(old)), what="the agent outlives its wrapper")
    assert session.say("what did I say?").startswith("SEEN 2 user texts")
    assert [str(process) for process in carrying(old)] == []
    assert len([process for process in live.processes() if "agh.keeper.main" in process.argv]) == 1
    session.check_log()
    session.kill_keeper()  # to stop a deaf agent would take all the graces


@pytest.mark.parametrize("command", ["resume", "repair", "repair --all", "stop"])
def test_every_command_that_may_write_ends_them(live: Live, command: str) -> None:
    session = live.new("--wrapper")
    session.send("/spawn-setsid 300\n/sleep 300")
    session.wait_for_text("spawned")
    old = kill_both(session)
    wait_until(lambda: carrying(old))
    verb, *options = command.split()
    live.agh("session", verb, *(options or [session.id]))
    assert [str(process) for process in carrying(old)] == []


def test_a_reader_ends_nobody(live: Live) -> None:
    session = live.new()
    session.send("/spawn-setsid 300\n/sleep 300")
    session.wait_for_text("spawned")
    old = kill_both(session)
    for verb in ("status", "events", "transcript", "recap"):
        session.agh(verb)
    (left,) = wait_until(lambda: len(processes := carrying(old)) == 1 and processes)
    assert left.argv == ["sleep", "300"]
    assert "1 processes left over" in live.agh("doctor", code=None).stdout
    report = json.loads(session.agh("repair", "-o", "json").stdout)
    assert report["persisted"] is True
    assert carrying(old) == []
