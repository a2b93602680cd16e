"""Kills of the client, the keeper and the leash of a session whose agent runs elsewhere on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agh_places import far

from tests.support.live import Session
from tests.support.processes import Process, kill, processes
from tests.support.rounds import Round
from tests.support.wait import wait_until

VICTIMS = ("client", "keeper", "leash")
GONE_WITHIN = 8.0


def marked(session: Session) -> list[Process]:
    """Return everything of the session that the far side started."""
    return [
        process for process in processes() if process.environ.get(far.MARK, "").startswith(f"{session.id}:")
    ]


def agents(session: Session) -> list[Process]:
    """Return the agents of the session on the far side."""
    return [process for process in marked(session) if "agh_echo" in process.argv[:5]]


def kill_in_turns(session: Session, rounds: Iterable[Round]) -> dict[str, int]:
    """Kill one of them per round, some in a turn, and prompt again; return how often each was killed.

    There is never a second agent, and each prompt has an answer of its own. At the end nothing is left.
    """
    counts = dict.fromkeys(VICTIMS, 0)
    with never_two(session):
        for number, chance in rounds:
            victim = chance.choice(VICTIMS)
            counts[victim] += 1
            pid = {"client": session.agent, "keeper": session.keeper, "leash": session.leash}[victim]
            if chance.random() < 0.5:
                session.send("/stream 300 0.01")
                time.sleep(chance.uniform(0, 0.2))
            kill(pid)
            wait_until(lambda: not session.is_live(), what=f"the end after a kill of the {victim}")
            if chance.random() < 0.3:
                session.agh("repair")
            answer = session.say(f"round {number}")
            assert answer.splitlines()[-1] == f"echo: round {number}", f"after a kill of the {victim}"
    session.stop()
    wait_until(lambda: not marked(session), GONE_WITHIN, "the far side is empty")
    session.check_log()
    return counts


@contextmanager
def never_two(session: Session) -> Iterator[None]:
    """Look again and again inside the block; fail if there ever was a second agent."""
    enough, crowds = threading.Event(), []

    def watch() -> None:
        while not enough.wait(0.02):
            if len(crowd := agents(session)) > 1:
                crowds.append(crowd)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        enough.set()
        watcher.join(10)
    assert crowds == []
