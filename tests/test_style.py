"""The code is fit for a newcomer: telling names, docstrings with verbs, rooms that are not full."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("agh", "plugins", "tools")
VAGUE = {
    *("one", "found", "made", "told", "said", "given", "asked", "wanted", "known"),
    *("held", "done", "shown", "taken", "stored", "chosen", "kept", "begun"),
}
NO_VERB = re.compile(r"(The|A|An|What|Whether|Who|Where|Every|How|Why|Which|All|Nothing|Only)\b")
MOST_MODULES, MOST_LINES = 20, 300
TABLES = {"agh/errors.py"}  # one entry after another: its length says nothing
ONE_FILE_PER_COMMAND = {"agh/cli/session"}


def sources() -> list[Path]:
    return [
        path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if ".venv" not in path.parts
    ]


class Facts(NamedTuple):
    """What a module says, without its tree, which takes a hundred times the memory."""

    names: Counter[str]
    docstrings: list[tuple[int, str]]  # of functions, with their lines
    basenames: list[tuple[int, str]]  # calls of os.path.basename


@cache
def facts(path: Path) -> Facts:
    """Read a module once, for all tests: to parse it takes most of their time."""
    facts = Facts(Counter(), [], [])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            facts.names[node.id] += 1
        elif isinstance(node, ast.arg):
            facts.names[node.arg] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                facts.docstrings.append((node.lineno, text))
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "basename"
        ):
            facts.basenames.append((node.lineno, ast.unparse(node)))
    return facts


def vague_names(paths: list[Path], words: set[str]) -> tuple[dict[str, int], int]:
    """Count the vague names of each file that has some, and the names of all files."""
    counts = {str(path.relative_to(ROOT)): facts(path).names for path in paths}
    vague = {path: sum(count[word] for word in words) for path, count in counts.items()}
    return {path: number for path, number in vague.items() if number}, sum(
        sum(count.values()) for count in counts.values()
    )


def test_few_names_are_vague() -> None:
    vague, total = vague_names(sources(), VAGUE)
    assert total > 30_000
    assert sum(vague.values()) < total * 0.005, vague


def test_few_names_in_tests_are_vague() -> None:
    vague, total = vague_names(sorted((ROOT / "tests").rglob("*.py")), VAGUE - {"given"})  # hypothesis's name
    assert total > 50_000
    assert sum(vague.values()) < total * 0.015, vague


def test_docstrings_begin_with_a_verb() -> None:
    texts = [
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in sources()
        for line, text in facts(path).docstrings
    ]
    verbless = [where for where, text in texts if NO_VERB.match(text)]
    assert len(texts) > 500
    assert len(verbless) < len(texts) * 0.05, verbless


def test_no_folder_is_full() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in sources())
    full = {folder: count for folder, count in counts.items() if count > MOST_MODULES}
    assert full.keys() <= ONE_FILE_PER_COMMAND


def test_no_module_is_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert {name for name, length in lengths.items() if length > MOST_LINES} <= TABLES


def test_plugins_are_not_made_of_the_command_line() -> None:
    users = [path for path in sources() if "plugins" in path.parts and "agh.cli" in path.read_text()]
    assert users == []


def test_a_session_is_a_value() -> None:
    """Its id is an attribute; only `Session.at` takes it from the name of a directory."""
    taken = [
        f"{path.relative_to(ROOT)}:{line}: {call}"
        for path in sources()
        for line, call in facts(path).basenames
        if re.search(r"\b_?(directory|session|target|lock)\b", call.partition("(")[2])
    ]
    assert taken == []
