"""A permission request as it is put to a person."""

from __future__ import annotations

from typing import Any

from agh.cli.approval import (
    choices,
    describe_decision,
    diff_lines,
    has_more,
    headline_lines,
    key_of,
    question_words,
    request_lines,
)

OPTIONS = [
    {"option_id": "once", "name": "Yes", "verdict": "allow"},
    {"option_id": "edits", "name": "Yes, all edits", "verdict": "allow_always"},
    {"option_id": "all", "name": "Yes, everything\x1b[2J", "verdict": "allow_always"},
    {"option_id": "no", "name": "No", "verdict": "deny"},
]


def request(**fields: Any) -> dict[str, Any]:
    return {"about": "edit: a.txt", "diff": None, "title": None, "options": OPTIONS, **fields}


def test_only_what_the_agent_offers_has_a_key() -> None:
    rows = choices(request())
    assert [(row.key, row.option_id) for row in rows] == [
        ("y", "once"),
        ("a", "edits"),
        ("n", "no"),
        ("1", "all"),
    ]
    assert [row.key for row in choices(request(options=[]))] == ["n"], "one can always refuse"


def test_agh_says_what_it_means_and_the_agent_what_it_calls_it() -> None:
    words = question_words(choices(request()), True)
    assert words.startswith("allow it? [y] allow once “Yes” · [a] always allow “Yes, all edits” · ")
    assert "\\x1b[2J" in words and "\x1b" not in words
    assert "· [n] deny “No” · [v] view all · [1] always allow" in words


def test_a_long_diff_is_cut_and_one_line_alone_is_not() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n context"
    assert [line.role for line in diff_lines(diff)] == ["muted", "muted", "hunk", "removed", "added", None]
    assert len(diff_lines(diff, 5)) == 6 and not has_more(request(diff=diff), 5)
    assert diff_lines(diff, 3)[-1].text == "  … 3 more lines" and has_more(request(diff=diff), 3)
    assert diff_lines(None) == []


def test_the_headline_is_aghs_own() -> None:
    lines = headline_lines(request(title="Tidy up"))
    assert [line.text for line in lines] == [
        "? the agent wants to edit: a.txt",
        "  the agent calls it: Tidy up",
    ]


def test_a_decision_names_the_option_and_what_it_is_about() -> None:
    assert (
        describe_decision(request(), "allow_always", "allowed", "all")
        == "allowed, always with the agent's option “Yes, everything\\x1b[2J”: edit: a.txt"
    )
    assert describe_decision(request(options=[]), "deny", "cancelled", None) == "cancelled: edit: a.txt"


def test_a_line_that_only_begins_with_a_key_is_no_answer() -> None:
    keys = [row.key for row in choices(request())]
    assert [key_of(text, keys) for text in ("y\n", "YES", "always", "no", "deny", "1")] == list("yyann1")
    for text in ("", "you decide", "add a test", "nope, do it differently", "11", "allow it", "v"):
        assert key_of(text, keys) is None, text


def test_every_key_is_one_character_however_many_options_there_are() -> None:
    options = [{"option_id": f"o{n}", "name": "", "verdict": "allow"} for n in range(5000)]
    rows = choices(request(options=[*options, {"option_id": "no", "name": "No", "verdict": "deny"}]))
    assert [row.key for row in rows] == [*"yn123456789"]
    assert len(question_words(rows, False)) < 400


def test_the_name_of_an_option_cannot_look_like_another_option() -> None:
    name = "x” · [n] allow once “y"
    (row,) = choices(request(options=[{"option_id": "no", "name": name, "verdict": "deny"}]))
    assert row.label() == "[n] deny “x' · [n] allow once 'y”"


def test_only_a_line_feed_ends_a_line_of_a_diff() -> None:
    (line,) = diff_lines("+ok\x0c evil()\x85-gone\u2028+more")
    assert line.role == "added" and line.text == "  +ok\\x0c evil()\\x85-gone\\u2028+more"


def test_what_is_cut_is_said_and_can_be_viewed() -> None:
    long = request(diff="+" + "x" * 5000 + "evil", about="run: " + "y" * 5000 + " evil")
    assert diff_lines(long["diff"], 8)[0].text.endswith("x… 1,005 more characters")
    assert headline_lines(long)[0].text.endswith("more characters")
    assert has_more(long, 8)
    assert all(line.text.endswith("evil") for line in request_lines(long))
