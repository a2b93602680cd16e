"""The page's elements: the same as in the HTML transcript, wherever one begins and however the rows come."""

from __future__ import annotations

from itertools import pairwise

from agh_serve.sheet import Sheet

from agh.core.events import Row, draft
from agh.core.html.page import article
from agh.core.transcript import transcript
from tests.support.build import calls, conversation, done, returns, rows, says, thinks, user

TALK = [
    *conversation(),
    user("again", "t2", at="2026-04-17T00:00:01.000Z"),
    thinks("hm", "t2", at="2026-04-17T00:00:02.000Z"),
    calls("a", turn="t2", at="2026-04-17T00:00:03.000Z"),
    calls("b", turn="t2", at="2026-04-17T00:00:03.000Z"),
    returns("b", turn="t2", at="2026-04-17T00:00:03.000Z"),
    returns("a", turn="t2", tool_error=True, at="2026-04-17T00:00:04.000Z"),
    returns("stray", turn="t2", at="2026-04-17T00:00:04.000Z"),
    says("so ", "t2", at="2026-04-17T00:00:04.000Z"),
    says("it is", "t2", at="2026-04-17T00:00:04.000Z"),
    done("t2", at="2026-04-17T00:00:05.000Z"),
]


def shown(sheet: Sheet, found: list[Row], size: int) -> dict[float, str]:
    """What a page has when the rows came `size` at a time."""
    elements: dict[float, str] = {}
    for start in range(0, len(found), size):
        sheet.feed(found[start : start + size])
        while made := sheet.changes(3):
            elements |= {one["number"]: one["html"] for one in made}
    return elements


def test_as_in_the_html_transcript() -> None:
    found = rows(TALK)
    whole = article(transcript(found))
    for size in (1, 2, 5, 100):
        elements = shown(Sheet(), found, size)
        assert "\n".join(elements[number] for number in sorted(elements)) == whole


def test_the_numbers_are_the_same_wherever_one_begins() -> None:
    found = rows(TALK)
    whole = shown(Sheet(), found, 100)
    second = next(row.sequence for row in found if row.turn_id == "t2")
    part = shown(Sheet(), found[second - 1 :], 1)
    assert part == {number: html for number, html in whole.items() if number >= second}


def test_what_did_not_change_is_not_sent_again() -> None:
    sheet = Sheet()
    sheet.feed(rows(TALK))
    assert len(sheet.changes(1000)) == len(shown(Sheet(), rows(TALK), 100))
    assert sheet.changes(1000) == []
    sheet.feed(rows([says(" so", "t2", at="2026-04-17T00:00:09.000Z")], len(TALK) + 1))
    assert [one["number"] for one in sheet.changes(1000)] == [len(TALK) + 1]


def test_notices() -> None:
    events = [
        draft("error", turn_id="t", error="overloaded <b>", stop_reason="error"),
        draft("runtime_warning", turn_id="t", text="no word"),
        draft("session_resumed", strategy="native_load"),
        draft("session_stopped", stop_reason="completed"),
    ]
    elements = shown(Sheet(), rows(events), 1)
    for words, html in zip(
        ("overloaded &lt;b&gt;", "no word", "native_load", "completed"), elements.values(), strict=True
    ):
        assert words in html and 'class="marker' in html
    assert all(one < other for one, other in pairwise(elements))
