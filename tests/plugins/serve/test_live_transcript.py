"""The page's elements: the same as in the HTML transcript, wherever one begins and however the rows come."""

from __future__ import annotations

from itertools import pairwise

from agh_serve.live_transcript import LiveTranscript

from agh.core.events import Row, draft
from agh.core.html.page import article
from agh.core.transcript import transcript
from tests.support.build import calls, conversation, finishes, returns, rows, says, thinks, user

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
    finishes("t2", at="2026-04-17T00:00:05.000Z"),
]


def render(live: LiveTranscript, talk: list[Row], size: int) -> dict[float, str]:
    """Return the elements that a page has after the rows came, `size` at a time."""
    elements: dict[float, str] = {}
    for start in range(0, len(talk), size):
        live.add_rows(talk[start : start + size])
        while changes := live.take_changes(3):
            elements |= {element["number"]: element["html"] for element in changes}
    return elements


def test_as_in_the_html_transcript() -> None:
    talk = rows(TALK)
    whole = article(transcript(talk))
    for size in (1, 2, 5, 100):
        elements = render(LiveTranscript(), talk, size)
        assert "\n".join(elements[number] for number in sorted(elements)) == whole


def test_the_numbers_are_the_same_wherever_one_begins() -> None:
    talk = rows(TALK)
    whole = render(LiveTranscript(), talk, 100)
    second = next(row.sequence for row in talk if row.turn_id == "t2")
    part = render(LiveTranscript(), talk[second - 1 :], 1)
    assert part == {number: html for number, html in whole.items() if number >= second}


def test_what_did_not_change_is_not_sent_again() -> None:
    live = LiveTranscript()
    live.add_rows(rows(TALK))
    assert len(live.take_changes(1000)) == len(render(LiveTranscript(), rows(TALK), 100))
    assert live.take_changes(1000) == []
    live.add_rows(rows([says(" so", "t2", at="2026-04-17T00:00:09.000Z")], len(TALK) + 1))
    assert [element["number"] for element in live.take_changes(1000)] == [len(TALK) + 1]


def test_notices() -> None:
    events = [
        draft("error", turn_id="t", error="overloaded <b>", stop_reason="error"),
        draft("runtime_warning", turn_id="t", text="no word"),
        draft("session_resumed", strategy="native_load"),
        draft("session_stopped", stop_reason="completed"),
    ]
    elements = render(LiveTranscript(), rows(events), 1)
    for text, html in zip(
        ("overloaded &lt;b&gt;", "no word", "native_load", "completed"), elements.values(), strict=True
    ):
        assert text in html and 'class="marker' in html
    assert all(number < following for number, following in pairwise(elements))
