"""Joining a session at any moment: nothing that the agent says is lost or shown twice."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress

import pytest

from agh.errors import Relayed
from tests.support.live import Live, Session
from tests.support.rounds import Rounds
from tests.support.screen import CTRL_D, open_chat
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

# Messages with tool calls between them: some are printed for good while the next one is still being drawn.
PROMPT = "\n".join(["/stream 40 0.004\n/tool read"] * 30)
ROUNDS, CHAT_ROUNDS = 5, 3  # a chat takes longer to start; `make soak` has many more of both


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"chunk\s+(\d+)", text)]


def stream(session: Session, chance: random.Random) -> str:
    """Start a turn and wait for a random moment of it; return its id."""
    turn = session.send(PROMPT)
    wait_for_events(session, turn, chance.randrange(1, 100))
    return turn


def wait_for_events(session: Session, turn: str, count: int, meanwhile: Callable[[], object] = bool) -> None:
    def has_come() -> bool:
        meanwhile()
        ((stored,),) = session.fetch("SELECT count(*) FROM events WHERE turn_id = ?", turn)
        return bool(stored >= count) or session.has_ended(turn)

    wait_until(has_come)


def end(session: Session, turn: str) -> list[int]:
    """End a turn; return the numbers of the chunks that it had."""
    with suppress(Relayed):  # it has ended by itself
        session.call("cancel", turn_id=turn)
    wait_until(lambda: session.has_ended(turn))
    return numbers(session.text(turn))


def join_chat(live: Live, session: Session, chance: random.Random, columns: int, lines: int) -> None:
    """Join on a screen, see the turn to its end, and leave by a key or a kill."""
    turn = stream(session, chance)
    with open_chat(live, "attach", session.id, columns=columns, lines=lines) as screen:
        wait_for_events(session, turn, chance.randrange(100, 300), lambda: screen.collect(0.01))
        screen.awaits(lambda: numbers(screen.text))
        chunks = end(session, turn)
        screen.awaits(lambda: re.search(r"^idle ·", screen.text, re.MULTILINE))
        seen = numbers(screen.history.rpartition("/help lists keys")[2])
        if "earlier events of this turn" in screen.history:  # a slow start, and a long turn
            chunks = chunks[-len(seen) :]
        assert seen == chunks
        if chance.random() < 0.5:
            screen.type(CTRL_D)
            assert screen.ends() == 0
    wait_until(lambda: session.meta()["attach"] is None)


def join_lines(live: Live, session: Session, chance: random.Random) -> None:
    """Join on a terminal that can only print, and kill it in the middle of the turn."""
    turn = stream(session, chance)
    with open_terminal(live, "attach", session.id) as terminal:
        terminal.shows("chunk ")
        count = len(numbers(terminal.printed)) + chance.randrange(1, 100)
        while len(numbers(terminal.printed)) < count and not session.has_ended(turn):
            terminal.collects()
        terminal.process.kill()
        terminal.ends()
    seen = re.findall(r"chunk (\d+) ", terminal.printed)
    assert seen and list(map(int, seen)) == end(session, turn)[: len(seen)]


def join_events(live: Live, session: Session, chance: random.Random) -> None:
    """Follow the log from a few events back, and kill that."""
    turn = stream(session, chance)
    args = ("session", "events", session.id, "--last", "20", "--follow", "-o", "jsonl")
    with open_terminal(live, *args) as terminal:
        sequences: list[int] = []
        stay = chance.randrange(20, 100)
        while len(sequences) < stay and not session.has_ended(turn):
            terminal.collects()
            sequences = [int(number) for number in re.findall(r'"sequence":(\d+),', terminal.printed)]
        terminal.process.kill()
        terminal.ends()
    end(session, turn)
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 20)], ids=["80x24", "40x20"])
def test_the_chat_loses_nothing(live: Live, rounds: Rounds, columns: int, lines: int) -> None:
    session = live.new()
    for _, chance in rounds(CHAT_ROUNDS):
        join_chat(live, session, chance, columns, lines)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("join", [join_lines, join_events])
def test_lines_lose_nothing(
    live: Live, rounds: Rounds, join: Callable[[Live, Session, random.Random], None]
) -> None:
    session = live.new()
    for _, chance in rounds(ROUNDS):
        join(live, session, chance)
