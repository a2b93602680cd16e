"""Unified diffs for a person to judge."""

from __future__ import annotations

import pytest

from agh.core.diff import split_lines, unified


def test_only_a_line_feed_ends_a_line() -> None:
    assert split_lines("a\x0cb\x85c\u2028d\re\nf\n") == ["a\x0cb\x85c\u2028d\re", "f"]
    assert split_lines("") == []


@pytest.mark.parametrize("new", ["a\nb", "a\nb\n\n", "a\r\nb\n", "a\x0cb\n", "a\u2028b\n", "a\rb\n"])
def test_no_change_is_invisible(new: str) -> None:
    assert unified("a\nb\n", new, "a.txt")


def test_carriage_returns_of_a_whole_file_say_nothing() -> None:
    assert unified("a\r\nb\r\n", "a\r\nc\r\n", "a.txt")[-3:] == [" a", "-b", "+c"]
    assert unified("a\n", "a\n", "a.txt") == []


def test_a_path_takes_one_line() -> None:
    assert unified("a", "b", "x\n+++ y")[:2] == ["--- x\\n+++ y", "+++ x\\n+++ y"]
