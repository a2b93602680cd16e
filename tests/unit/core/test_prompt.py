"""Tests of the first and last lines that lists show."""

from __future__ import annotations

import pytest

from agh.core.prompt import LAST, last_line
from agh.core.redaction.redact import Redactor

NOTHING = Redactor((), ())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Looking at it.\nShall I fix  it?\n\n", "Shall I fix it?"),
        ("Run this:\n```\nmake test\n```\n", "make test"),
        ("It is true.\n---\n", "It is true."),
        ("...", "..."),
        (" \n", None),
        ("word " * 100, "…" + ("word " * 40).rstrip()[1:]),
        ("word " * 100 + "\n```", "…ord" + " word" * 38),
        ("word " * 100 + "\nThe end.", "The end."),
    ],
)
def test_the_last_line_that_says_something(text: str, line: str | None) -> None:
    assert last_line(text, NOTHING) == line
    assert line is None or len(line) <= LAST
