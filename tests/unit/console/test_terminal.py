from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agh.console.terminal import clean, clean_json, one_line, wrap
from tests.support.output import UNSAFE

TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("\x00\x07\x08\t\n\r\x1b\x7f\x85\x9b\x9d\u202e\u2066\u200b\ufeff\U000e0041"),
    )
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, Grüße, 世界, 👩‍👩‍👧", "plain text, Grüße, 世界, 👩‍👩‍👧"),
        ("a\tb\nc\r\nd", "a\tb\nc\r\nd"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b[2J\r\n", "\\x1b[2J\n"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202e", "\\u202e"),
        ("\U000e0041", "\\U000e0041"),
        ("a\rb", "a\\x0db"),
        ("[bold]", "[bold]"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text).replace("\r\n", "\n") == shown.replace("\r\n", "\n")


@given(TEXTS)
def test_nothing_unsafe_is_left(text: str) -> None:
    assert not UNSAFE.search(clean(text))
    assert clean(clean(text)) == clean(text)


@given(TEXTS)
def test_json_keeps_its_meaning(text: str) -> None:
    for ascii_only in (True, False):
        cleaned = clean_json(json.dumps({"key": text}, ensure_ascii=ascii_only))
        assert json.loads(cleaned) == {"key": text}
        assert not UNSAFE.search(cleaned)


@given(TEXTS, st.integers(1, 200))
def test_one_line_is_one_line_and_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line
    assert not UNSAFE.search(line)


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (80, ["allow it? [y] once “Yes” · [a] always “Yes, all edits” · [n] deny: "]),
        (40, ["allow it? [y] once “Yes” ·", "[a] always “Yes, all edits” · [n] deny: "]),
        (22, ["allow it? [y] once", "“Yes” ·", "[a] always “Yes, all", "edits” · [n] deny: "]),
        (10, ["allow it?", "[y] once", "“Yes” ·", "[a] always", "“Yes, all", "edits” ·", "[n] deny: "]),
    ],
)
def test_a_question_is_wrapped_between_its_answers(width: int, lines: list[str]) -> None:
    assert wrap("allow it? [y] once “Yes” · [a] always “Yes, all edits” · [n] deny: ", width) == lines


def test_the_width_is_that_of_the_terminal_unless_columns_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 133, 0, 0))
    code = "from agh.console import terminal; import sys; print(terminal.width(), file=sys.stderr)"
    try:
        for columns, expected in (("", 133), ("90", 90), ("0", 133), ("wide", 133)):
            monkeypatch.setenv("COLUMNS", columns)
            result = subprocess.run(
                [sys.executable, "-c", code], stdout=theirs, stderr=subprocess.PIPE, text=True
            )
            assert result.stderr == f"{expected}\n"
        monkeypatch.delenv("COLUMNS")
        result = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert result.stderr == "80\n"
    finally:
        os.close(ours)
        os.close(theirs)
