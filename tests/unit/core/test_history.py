"""History is the log sorted into turns: every row of a turn once, in order."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.core.events import LIFECYCLE_TYPES, TYPES, Draft, Row, draft
from agh.core.history import turns
from tests.support.build import conversation, finishes, rows, says, user

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


POOL = [
    draft(kind, turn_id=turn, stop_reason=reason)
    for kind in [*TYPES, "done", "error"]
    for turn in ["", "turn-1", "turn-2", "turn-3"]
    for reason in [None, "cancelled"]
]


def _log(drafts: list[Draft]) -> list[Row]:
    return rows([draft._replace(timestamp=f"at-{number:03d}") for number, draft in enumerate(drafts)])


logs = st.lists(st.sampled_from(POOL), max_size=25).map(_log)


@given(logs)
@LAW
def test_every_row_of_a_turn_is_in_it_once_and_in_order(log: list[Row]) -> None:
    history = turns(iter(log))
    assert [turn.turn_id for turn in history] == list(
        dict.fromkeys(row.turn_id for row in log if row.turn_id)
    )
    for turn in history:
        assert turn.rows == [row for row in log if row.turn_id == turn.turn_id]
    assert sorted(row for turn in history for row in turn.rows) == [row for row in log if row.turn_id]


@given(logs)
@LAW
def test_a_turn_runs_from_its_first_row_to_its_first_end(log: list[Row]) -> None:
    for turn in turns(log):
        ends = [row for row in turn.rows if row.type in ("done", "error")]
        assert turn.started_at == turn.rows[0].timestamp
        assert turn.ended_at == (ends[0].timestamp if ends else None)
        if not ends:
            assert turn.stop_reason is None
        else:
            default = "error" if ends[0].type == "error" else "end_turn"
            assert turn.stop_reason == (ends[0].parsed().get("stop_reason") or default)


def test_lifecycle_is_outside_of_any_turn() -> None:
    log = rows([draft(kind) for kind in LIFECYCLE_TYPES])
    assert turns(log) == []


def test_late_news_belongs_to_its_turn_and_does_not_open_it_again() -> None:
    log = rows(
        [user("a"), finishes(at="first"), user("b", turn="turn-2"), says("late"), finishes(at="second")]
    )
    first, second = turns(log)
    assert [row.sequence for row in first.rows] == [1, 2, 4, 5]
    assert (first.ended_at, first.stop_reason) == ("first", "end_turn")
    assert (second.ended_at, second.stop_reason) == (None, None)


def test_one_turn_with_everything_in_it() -> None:
    log = rows(conversation())
    (turn,) = turns(log)
    assert turn.rows == [row for row in log if row.turn_id]
    assert turn.stop_reason == "end_turn"
