"""SECURITY.md: each promise names tests that exist."""

from __future__ import annotations

import re

from tests.support.named import ROOT, exists

TEXT = (ROOT / "SECURITY.md").read_text()
NAMED = re.compile(r"`(tests/[^`]+)`")


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) > 40
    assert [name for name in named if not exists(name)] == []


def test_every_promise_names_its_tests() -> None:
    promised = TEXT.partition("## Promised")[2].partition("## Not promised")[0]
    lines = re.split(r"^- ", promised, flags=re.MULTILINE)[1:]
    assert len(lines) > 15
    assert [line for line in lines if not NAMED.search(line)] == []
