"""The lines around the input: nothing is wider than the terminal, the important things come first."""

from __future__ import annotations

import pytest

from agh.cli.chat.status_line import Facts, format_context, format_cost, header, join, status_text
from agh.console import terminal

FACTS = Facts("fix-login", "claude", "opus", "code", "~/src/app", "context 34 %", "$1.20")


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_nothing_is_too_wide(width: int) -> None:
    wide = FACTS._replace(name="ネコ" * 40, directory="x" * 300)
    for facts in (FACTS, wide):
        lines = [*header(facts, width).splitlines(), status_text(facts, "running 12 s", width)]
        assert all(terminal.display_width(line) <= width for line in lines)


def test_what_is_most_important_comes_first() -> None:
    assert status_text(FACTS, "running 12 s", 40) == "running 12 s · fix-login · opus · code"
    assert status_text(FACTS, "idle", 200) == "idle · fix-login · opus · code · context 34 % · $1.20"
    assert header(FACTS, 200).splitlines()[:3] == [
        "fix-login",
        "claude · opus · code · context 34 % · $1.20",
        "~/src/app",
    ]


def test_what_is_unknown_is_left_out() -> None:
    assert format_cost(None, None) == "" and format_context({}) == ""
    assert format_cost(0.01234, "USD") == "$0.0123" and format_cost(2, "EUR") == "2.00 EUR"
    assert format_context({"context_used": 0, "context_size": 100}) == "context 0 %"
    assert join(["", "a", "", "b"], 10) == "a · b"
