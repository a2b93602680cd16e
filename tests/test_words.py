"""The words that people read: plain English, short sentences, and no figure or promise without its proof."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from agh.cli.main import root
from agh.cli.manual.text import plain
from agh.cli.tree import commands
from tests.support.named import ROOT, exists

# Phrases that had to be read twice. Each is a pattern; spaces match line breaks too.
DENIED = (
    r"twice is once",
    r"(?:is|are|was|were) (?:not )?told",
    r"can(?:not)? be told",
    r"anew",
    r"at last",
    r"goes on",
    r"comes to be",
    r"came to be",
    r"what waits",
    r"the way back",
    r"in words",
    r"a person",
    r"who has no",
    r"gives it up",
)
PATTERN = re.compile("|".join(rf"\b{phrase}\b".replace(" ", r"\s+") for phrase in DENIED), re.I)
MOST_WORDS = 35
DOCUMENTS = [
    *(
        ROOT / name
        for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "RELEASING.md", "CHANGELOG.md")
    ),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "plugins").rglob("README.md")),
    ROOT / "agh/skill/SKILL.md",
]
PAGES = sorted(path for path in (ROOT / "man").rglob("*") if path.is_file())
SOURCES = [
    path
    for room in ("agh", "plugins", "tools")
    for path in sorted((ROOT / room).rglob("*"))
    if path.suffix in (".py", ".html", ".js") and ".venv" not in path.parts
]
NAMED = re.compile(r"`(tests/[^`]+)`")
ONLY = re.compile(r"`python -m tests\.bench --only ([\w-]+)`")
ROW = re.compile(r"\(bench: ([^)]+)\)")
FIGURE = re.compile(
    r"(?<![\w.§-])\d[\d.,]*\s?(?:ms|µs|MB|x|events/s|% CPU|s of CPU|times as|times faster)(?!\w)"
)


def hits(text: str) -> list[str]:
    return [" ".join(match[0].split()) for match in PATTERN.finditer(text)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_are_plain_english(path: Path) -> None:
    assert hits(NAMED.sub("", path.read_text())) == []


def test_the_manual_is_plain_english() -> None:
    assert {
        str(page.relative_to(ROOT)): found for page in PAGES if (found := hits(plain(page.read_text())))
    } == {}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file: docstrings and other strings of Python, everything of other files."""
    if path.suffix != ".py":
        yield 1, path.read_text()
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_help_errors_and_docstrings_are_plain_english() -> None:
    """All of them are strings of the program."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in SOURCES
        for line, text in strings(path)
        for phrase in hits(text)
    ]
    assert len(SOURCES) > 300
    assert found == []


@pytest.mark.parametrize(
    "text", ["Running it twice\nis once.", "The agent is told.", "What waits is listed."]
)
def test_a_denied_phrase_is_seen(text: str) -> None:
    assert hits(text)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of paragraphs, list items and cells of tables; code and HTML are left out."""
    text = re.sub(r"^```.*?^```$|^<.*?>$", "", text, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) |^#+ .*$|\|", text, flags=re.M):
        yield from re.split(r"(?<=[.!?])[*_)\"]*\s+(?=[^a-z\s])", paragraph)


def long_sentences(text: str) -> list[str]:
    return [" ".join(words) for words in map(str.split, sentences(text)) if len(words) > MOST_WORDS]


def test_sentences_of_the_readme_are_short() -> None:
    assert long_sentences((ROOT / "README.md").read_text()) == []


def test_sentences_of_help_are_short() -> None:
    long = {}
    for path, command in commands(root):
        texts = [inspect.cleandoc(command.help or "")]
        texts += [option.help or "" for option in command.params if isinstance(option, click.Option)]
        texts = [part for text in texts for part in text.split("\n\n") if not part.startswith("\b")]
        if found := [sentence for text in texts for sentence in long_sentences(text)]:
            long[" ".join(path)] = found
    assert long == {}


def test_a_long_sentence_is_seen() -> None:
    assert long_sentences("Short. " + "word " * 36 + "end. Short.")
    assert not long_sentences("word " * 30 + "end. " + "Word " * 30)


def paragraphs(text: str) -> list[str]:
    """Return paragraphs, items of lists and tables; a table goes with the paragraph before it."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"\n\n\|", "\n|", text)
    return [part for part in re.split(r"\n\s*\n|^- ", text, flags=re.M) if part.strip()]


def unproved(text: str) -> list[str]:
    """Return the paragraphs with a measured figure that name no test, module of measurements or bench row."""
    return [
        part.strip()
        for part in paragraphs(text)
        if FIGURE.search(part) and not (NAMED.search(part) or ROW.search(part) or ONLY.search(part))
    ]


def measured_documents() -> list[Path]:
    """Return the documents in which figures are claims; the bench writes one of them itself."""
    return [
        ROOT / "README.md",
        *(path for path in (ROOT / "docs").glob("*.md") if path.name != "benchmarks.md"),
    ]


@pytest.mark.parametrize("path", measured_documents(), ids=lambda path: path.name)
def test_every_figure_names_its_test_or_bench_row(path: Path) -> None:
    assert unproved(path.read_text()) == []


PROMISE = re.compile(r"\bnever\b|\bis lost\b|\bsent once\b|\bsafe to\b|\bsurviv|\boutlive|kill -9", re.I)
UNCLAIMED = (
    "agents.md",
    "benchmarks.md",
    "design.md",
    "spec.md",
)  # measured, or tied to their tests elsewhere
CLAIMING = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in UNCLAIMED),
    *(path for path in sorted((ROOT / "plugins").rglob("README.md")) if "agh-echo" not in path.parts),
]


def unbacked(text: str) -> list[str]:
    """Return the paragraphs that promise something and name no test, nor one of the numbered promises."""
    return [
        part.strip()
        for part in paragraphs(text)
        if PROMISE.search(part) and not NAMED.search(part) and "(#promises)" not in part
    ]


@pytest.mark.parametrize("path", CLAIMING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_promise_names_its_test(path: Path) -> None:
    assert unbacked(path.read_text()) == []


def test_a_promise_without_proof_is_seen() -> None:
    assert unbacked("It never fails.")
    assert not unbacked("It never fails. `tests/a.py::test_b`")


def test_every_test_and_row_that_is_named_exists() -> None:
    rows = {figure["name"] for figure in json.loads((ROOT / "docs/bench.json").read_text())["figures"]}
    sources = "\n".join(path.read_text() for path in (ROOT / "tests/bench").glob("*.py"))
    for path in [*CLAIMING, *(ROOT / "docs").glob("*.md")]:
        text = path.read_text()
        missing = [name for name in NAMED.findall(text) if not is_there(name)]
        missing += [name for name in ONLY.findall(text) if f'"{name}":' not in sources]
        missing += [name for name in ROW.findall(text) if name not in rows and f'"{name}"' not in sources]
        assert missing == [], path.name


def is_there(name: str) -> bool:
    return exists(name) if "::" in name else (ROOT / name.partition(" ")[0]).exists()


def test_every_promise_of_the_readme_names_a_test() -> None:
    body = (ROOT / "README.md").read_text().partition("\n## Promises\n")[2].partition("\n## ")[0]
    promises = re.split(r"^\d+\. ", body.partition("Not promised")[0], flags=re.M)[1:]
    assert len(promises) == 8
    assert [promise for promise in promises if not NAMED.search(promise)] == []


@pytest.mark.parametrize(
    "text", ["It takes 4 ms.", "A keeper has 27 MB.", "It is 3.5 x faster.\n\nSee `tests/a.py`."]
)
def test_a_figure_without_proof_is_seen(text: str) -> None:
    assert unproved(text)
    assert not unproved(text.partition("\n")[0] + " (bench: a row)")
