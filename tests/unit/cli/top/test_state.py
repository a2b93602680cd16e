"""What is selected while the list changes."""

from __future__ import annotations

from typing import Any

from agh.cli.top.reader import Snapshot
from agh.cli.top.state import Answer, Mode, State
from tests.unit.cli.top.test_draw import entry, view


def state(*numbers: int) -> State:
    filled = State()
    filled.update(snapshot(*numbers))
    return filled


def snapshot(*numbers: int, **entries: Any) -> Snapshot:
    views = [view(number, name=f"session-{number}", agent_name=f"agent-{number % 2}") for number in numbers]
    return Snapshot(views, entries, [])


def test_the_selection_follows_its_session() -> None:
    top = state(1, 2, 3)
    top.move(1)
    assert top.view and top.view["name"] == "session-2"
    top.update(snapshot(3, 4, 1, 2))
    assert top.view["name"] == "session-2"
    top.update(snapshot(3, 4, 1))
    assert top.view["name"] == "session-1", "the one that is in its place"
    top.update(snapshot())
    assert top.view is None
    top.update(snapshot(7))
    assert top.view["name"] == "session-7"


def test_moving_stops_at_both_ends() -> None:
    top = state(1, 2, 3)
    top.move(-1)
    assert top.index == 0
    top.move(100)
    assert top.index == 2
    assert [view["name"] for view in top.scroll(2)] == ["session-2", "session-3"]
    top.move(-2)
    assert [view["name"] for view in top.scroll(2)] == ["session-1", "session-2"]


def test_the_filter_wants_every_word() -> None:
    top = state(1, 2, 3, 13)
    top.set_filter("AGENT-1 3")
    assert [view["name"] for view in top.views] == ["session-3", "session-13"]
    assert top.view and top.view["name"] == "session-3"
    top.set_filter("nothing")
    assert top.view is None
    top.set_filter("")
    assert len(top.views) == 4


def test_a_question_about_a_session_that_is_gone_is_taken_back() -> None:
    top = state(1, 2)
    top.mode = Mode.STOP
    top.update(snapshot(2))
    assert top.mode is Mode.LIST


def test_a_session_that_starts_is_selected_unless_something_is_asked() -> None:
    top = state(1, 2)
    other = top.views[1]["id"]
    top.mode = Mode.STOP
    top.select_new(other)
    assert top.index == 0
    top.mode = Mode.LIST
    top.select_new("sess-elsewhere")
    assert top.index == 0
    top.select_new(other)
    assert top.index == 1


def test_a_request_that_is_answered_leaves_the_screen() -> None:
    top = state(1)
    assert top.view
    request = entry(top.view)
    top.mode, top.answer = Mode.ANSWER, Answer(request, allows=True)
    top.update(snapshot(1, **{top.selected: [request]}))
    assert top.mode is Mode.ANSWER
    top.update(snapshot(1))
    assert (top.mode, top.answer, top.message) == (Mode.LIST, None, "answered elsewhere")
