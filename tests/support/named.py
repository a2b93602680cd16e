"""Tests by the name that a document calls them: `tests/x/test_y.py::test_z`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def exists(name: str) -> bool:
    path, _, function = name.partition("::")
    return function.partition("[")[0] in _functions(path)


@cache
def _functions(path: str) -> set[str]:
    file = ROOT / path
    return set(re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)) if file.is_file() else set()
