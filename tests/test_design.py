"""docs/: promises name tests that exist, rooms and hooks are those of the code, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from agh.adapters import hookspecs
from tests.support.named import ROOT, exists

DOCS = ROOT / "docs"
TEXT = (DOCS / "design.md").read_text()
NAMED = re.compile(r"`(tests/[^`]+::[^`]+)`")


def part(title: str) -> str:
    """Return the text below a heading, down to the next heading."""
    return re.split(r"^#+ ", TEXT.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.M)[0]


def test_every_promise_names_tests_that_exist() -> None:
    promises = re.split(r"^\d+\. ", part("Promises"), flags=re.M)[1:]
    assert len(promises) == 10
    assert [promise for promise in promises if not NAMED.search(promise)] == []
    assert [name for name in NAMED.findall(TEXT) if not exists(name)] == []


def test_every_room_is_there() -> None:
    rooms = part("Rooms")
    tree = set(re.findall(r"^  ([\w.]+)/? ", rooms, flags=re.M))
    entries = (path for path in (ROOT / "agh").iterdir() if not path.name.startswith(("_", ".", "py.")))
    assert tree == {path.name for path in entries} - {"skill"}
    inner = set(re.findall(r"^    (\w+)/ ", rooms, flags=re.M))
    assert inner == {path.parent.name for path in (ROOT / "agh/keeper").glob("*/__init__.py")}
    plugins = re.search(r"^plugins/ .*: (.*)$", rooms, flags=re.M)
    assert plugins is not None
    assert plugins[1].split(", ") == sorted(
        path.name.removeprefix("agh-") for path in (ROOT / "plugins").iterdir()
    )


def test_the_rooms_are_in_the_order_of_the_import_contract() -> None:
    contract = (ROOT / "pyproject.toml").read_text().partition("layers = [")[2].partition("]")[0]
    layers = [re.findall(r"agh\.(\w+)", line) for line in contract.splitlines() if "agh." in line]
    arrows = re.search(r"^cli  →.*$", TEXT, flags=re.M)
    assert arrows is not None
    assert [room.split(", ") for room in arrows[0].split("  →  ")] == layers


def test_every_hook_is_there() -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("agh_")}
    assert set(re.findall(r"`(agh_\w+)`", part("Plugins"))) == hooks


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as they are made on the web."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
            name, _, title = target.partition("#")
            path = document.parent / name if name else document
            assert path.exists(), (document.name, target)
            assert not title or title in anchors(path), (document.name, target)


def test_the_index_leads_to_every_document() -> None:
    linked = re.findall(r"\]\(([\w.-]+\.md)", (DOCS / "README.md").read_text())
    assert set(linked) == {path.name for path in DOCS.glob("*.md")} - {"README.md"}


def test_the_glossary_is_in_order_and_short() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| (.+) \|$", (DOCS / "glossary.md").read_text(), flags=re.M)
    words = [word for word, _ in rows if word != "word"]
    assert words == sorted(set(words))
    assert 40 <= len(words) <= 50
    assert [sentence for word, sentence in rows if word != "word" and sentence.count(". ")] == []
