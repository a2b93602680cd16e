"""With milestones the end of a transcript is the same as without them, and is found without the rest."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agh.core.events import Draft, Row, marker
from agh.core.inject import history
from agh.core.redaction.redact import redactor
from agh.core.transcript import transcript
from agh.home import Session
from agh.store import milestones
from agh.store.milestones import START, Milestone, mark, redacted_tail, tail
from agh.store.reader import Reader
from agh.store.views import recap_view
from agh.store.writer import Writer
from tests.support.build import AT, Home, calls, finishes, returns, says, take_lock, user


def _turn(number: int, dice: random.Random) -> list[Draft]:
    turn = f"turn-{number}"
    pieces = [
        says("a word ", turn=turn),
        says("", turn=turn),
        calls(f"call-{number}", turn=turn),
        returns(f"call-{number}", turn=turn),
        marker("prompt_queued", "it waits", at=AT),
    ]
    middle = [dice.choice(pieces) for _ in range(dice.randrange(12))]
    late = [says("late", turn=turn)] if dice.random() < 0.3 else []
    return [user(f"question {number}", turn=turn), *middle, finishes(turn), *late]


def _log(home: Home, turns: int, seed: int) -> Path:
    """Return a log that was written turn by turn, as a keeper does it."""
    dice = random.Random(seed)
    directory = home.session()
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        for number in range(turns):
            before = log.last_sequence
            log.append(_turn(number, dice))
            mark(log, before)
    return directory


@pytest.mark.parametrize("seed", range(8))
def test_the_tail_is_the_end_of_the_whole(home: Home, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milestones, "STRIDE", 20)
    directory = _log(home, 40, seed)
    with Reader(Session.at(directory)) as reader:
        assert len(reader.fetch("SELECT 1 FROM milestones")) > 5
        whole = [message for message in transcript(reader.rows()) if message["role"] != "marker"]
        for count in (1, 2, 7, 30, len(whole), len(whole) + 1):
            before, talk = tail(reader, count)
            assert talk == whole[before.messages :]
            assert len(talk) >= min(count, len(whole))
        # Near the end: the last milestone that leaves enough, and not an earlier one.
        assert len(tail(reader, 1)[1]) < 60
        assert tail(reader, len(whole))[0] == START


def test_only_the_last_turns_are_redacted(home: Home) -> None:
    """A log without milestones has all its turns in the tail."""
    directory = _log(home, 40, 1)
    redacted: list[Row] = []

    def clean(rows: list[Row]) -> list[Row]:
        redacted.extend(rows)
        return rows

    with Reader(Session.at(directory)) as reader:
        before, talk = redacted_tail(reader, 3, clean)
        whole = [message for message in transcript(reader.rows()) if message["role"] != "marker"]
    starts = [row.sequence for row in redacted if row.type == "user_message"]
    assert starts[0] == redacted[0].sequence == before.sequence + 1, "whole turns"
    assert len(redacted) < 40 and len(talk) > 3
    assert talk == whole[before.messages :]


def test_a_recap_and_a_history_do_not_depend_on_milestones(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milestones, "STRIDE", 20)
    directory = _log(home, 40, 1)
    with_them = [recap_view(Session.at(directory), limit, redactor(), AT) for limit in (1, 20, 100)]
    with Reader(Session.at(directory)) as reader:
        before, talk = tail(reader, 30)
        assert before != START
        whole = [message for message in transcript(reader.rows()) if message["role"] != "marker"]
    assert history(talk, 300, omitted=before.messages) == history(whole, 300)
    monkeypatch.setattr(milestones, "_newest", lambda reader, messages=None: START)
    assert [recap_view(Session.at(directory), limit, redactor(), AT) for limit in (1, 20, 100)] == with_them


def test_a_milestone_is_set_only_where_the_last_is_far(home: Home) -> None:
    directory = home.session([user("hi"), says("ho"), finishes()])
    with take_lock(directory) as owner, Writer(owner, "general") as log:
        mark(log, log.last_sequence)
        assert log.connection.execute("SELECT count(*) FROM milestones").fetchone() == (0,)
        log.append([says("x") for _ in range(milestones.STRIDE)])
        mark(log, log.last_sequence)
        mark(log, log.last_sequence)
        (rows,) = log.connection.execute("SELECT * FROM milestones").fetchall()
    assert Milestone(*rows) == Milestone(3 + milestones.STRIDE, 3)
