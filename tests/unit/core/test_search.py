"""What can be found in a log, and how words become a query."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agh.core.search import CLOSE, MOST, OPEN, Collector, Text, expression, highlights
from tests.support.build import calls, conversation, finishes, returns, rows, says, thinks, user


def texts(*drafts: object) -> list[Text]:
    collector = Collector()
    return collector.feed(rows(drafts)) + collector.finish()  # type: ignore[arg-type]


def test_a_message_is_one_text_whatever_its_chunks() -> None:
    texts_of_log = texts(user("go"), says("hel"), says("lo wo"), says("rld"), finishes())
    assert [(item.sequence, item.turn_id, item.role, item.text) for item in texts_of_log] == [
        (1, "turn-1", "user", "go"),
        (2, "turn-1", "assistant", "hello world"),
    ]


def test_everything_that_is_said_or_done_has_a_text() -> None:
    by_role = {text.role: text.text for text in texts(*conversation())}
    assert by_role["thinking"] == "Need the lifecycle code path."
    assert by_role["tool_call"] == "Read\nRead session.go\nsession.go"
    assert by_role["tool_result"] == "package session"
    assert by_role["marker"] == "context_reset\nthe agent forgot"


def test_input_of_tools_is_searched_as_text_not_as_json() -> None:
    (call,) = texts(calls("c", tool_input={"command": "one\ntwo", "deep": [{"x": "three"}, 4, None]}))
    assert call.text == "Read\none\ntwo\nthree"


def test_a_text_has_an_end() -> None:
    (text,) = texts(user("x" * (MOST + 5)))
    assert len(text.text) == MOST


def test_the_open_prompt_is_where_a_grown_log_is_read_from() -> None:
    whole = [
        *conversation(),
        user("more", turn="turn-2"),
        thinks("hm", turn="turn-2"),
        says("a", turn="turn-2"),
    ]
    whole += [
        calls("z", turn="turn-2"),
        returns("z", turn="turn-2"),
        says("b", turn="turn-2"),
        finishes("turn-2"),
    ]
    stored, expected = rows(whole), texts(*whole)
    for cut in range(len(stored) + 1):
        first = Collector()
        kept = first.feed(stored[:cut])
        then = Collector(first.start)
        rest = then.feed(stored[first.start - 1 :]) + then.finish()
        assert kept + rest == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["login"], '"login"'),
        (["stop path", "x"], '"stop path" "x"'),
        (["log*"], '"log"*'),
        (['say "hi"'], '"say ""hi"""'),
        (["AND", "NOT", "a-b:c"], '"AND" "NOT" "a-b:c"'),
        (["*", "--", "🙂", ""], ""),
    ],
)
def test_words_become_a_query(words: list[str], expected: str) -> None:
    assert expression(words) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_no_words_can_break_the_query(words: list[str]) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    match = expression([word.replace("\0", "").encode(errors="ignore").decode() for word in words])
    if match:
        db.execute("SELECT * FROM t WHERE t MATCH ?", [match]).fetchall()
    db.close()


def test_highlights_are_offsets_in_the_plain_text() -> None:
    text, spans = highlights(f"…the {OPEN}stop{CLOSE} path {OPEN}stops{CLOSE}")
    assert text == "…the stop path stops"
    assert [text[start:end] for start, end in spans] == ["stop", "stops"]


@given(st.text(alphabet=f"ab{OPEN}{CLOSE}"))
def test_marks_in_the_text_itself_do_no_harm(snippet: str) -> None:
    text, spans = highlights(snippet)
    assert OPEN not in text and CLOSE not in text
    assert all(0 <= start <= end <= len(text) for start, end in spans)
