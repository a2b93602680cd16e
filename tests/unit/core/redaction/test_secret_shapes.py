"""The shapes of secrets: how many kinds, no false alarms in ordinary code, linear time."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest

from agh.core.redaction.redact import MARK, redactor
from agh.core.redaction.secret_shapes import SHAPES, find_shapes
from tests.support.cpu import cpu_seconds, is_faster

MEBIBYTES = 10
FALSE_LINES = 10


def test_there_are_more_than_90_kinds() -> None:
    assert len({shape.kind for shape in SHAPES}) > 90
    assert all(shape.hint == shape.hint.lower() for shape in SHAPES)
    for shape in SHAPES:
        re.compile(shape.pattern)


def test_a_pattern_is_compiled_only_if_its_hint_is_there() -> None:
    assert list(find_shapes("nothing of the kind is in this text")) == []
    assert len(list(find_shapes("the word ghp_0123456789012345678901234567"))) < 5


def test_few_false_lines_in_the_standard_library() -> None:
    size, changed, hide = 0, [], redactor()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        text = path.read_text(errors="replace")
        clean = hide.text(text)
        if clean != text:
            before, after = set(text.split("\n")), set(clean.split("\n"))
            changed += [f"{path.name}: {line[:100]}" for line in after - before if MARK in line]
        size += len(text)
        if size > MEBIBYTES << 20:
            break
    assert len(changed) <= FALSE_LINES, changed


@pytest.mark.parametrize(
    "unit",
    ["a", "A1", "sk-", "eyJ", "a.b.c.", "MTAwMDAw.", "\\u001b[0m", "\x1b[31m", "1/1", "0123456789abcdef-us"],
)
def test_time_is_linear(unit: str) -> None:
    """Four times the text takes four times as long, or sixteen times if something backtracks."""
    small, large = (unit * (size // len(unit)) for size in (40_000, 160_000))
    limit = 10 * cpu_seconds(lambda: redactor().text(small)) + 0.02
    assert is_faster(lambda: redactor().text(large), limit)
