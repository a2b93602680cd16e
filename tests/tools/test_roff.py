from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.roff import escape, paragraphs, prose, section, verbatim


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        ("plain words", "plain words"),
        ("--all", r"\-\-all"),
        (r"a\b", r"a\eb"),
        (".TH x", r"\&.TH x"),
        ("a\n'b'", "a\n\\(aqb\\(aq"),
        ("5 … 7", "5 ... 7"),
        ("≤", r"\[u2264]"),
    ],
)
def test_escape(text: str, roff: str) -> None:
    assert escape(text) == roff


def test_prose_is_one_line_with_bold_words() -> None:
    assert prose("Give `--all`\n  or `@last`.") == r"Give \fB\-\-all\fR or \fB@last\fR\&."
    assert paragraphs("one\ntwo\n\nthree") == "one two\n.PP\nthree"


def test_a_paragraph_that_click_prints_as_it_stands_stays_so() -> None:
    verse = "  two  2\n  three"
    assert paragraphs(f"one\n\n\b\n{verse}\n\nfour") == f"one\n{verbatim(verse)}\n.PP\nfour"


def test_an_empty_section_is_none() -> None:
    assert section("FILES", "") == ""


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1).filter(str.strip))
def test_text_survives_man(text: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    page = f".TH X 1\n.ll 500n\n.nh\n{verbatim(text)}\n"
    result = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-c", "-P-b", "-P-u"],
        input=page,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert result.stderr == ""
    printed = result.stdout.replace("\u2010", "-").replace("\u2212", "-")
    assert text.strip() in printed
