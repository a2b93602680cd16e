"""The house rules that no linter knows; `make lint` checks the others."""

from __future__ import annotations

import ast
import os
import pwd
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Where this was made, and where it is now. Assembled, so that this file does not name them itself.
PLACES = {
    "/" + "root/",
    "/" + "work/main",
    "/" + "work/shared",
    str(ROOT),
    pwd.getpwuid(os.getuid()).pw_dir + "/",
}
SOMEONES_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/(?!(?:me|you|user)\b)[a-z]\w*")


def tracked() -> list[Path]:
    """Return the files that git has or would take; outside a checkout there is nothing to say."""
    result = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        pytest.skip("not a git checkout")
    return [path for name in result.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_path_of_someones_machine() -> None:
    """Documents may speak of /home/me, and the inputs of tests of any made-up home; nothing of a real one."""
    found = []
    for path in tracked():
        name, text = path.relative_to(ROOT), path.read_bytes().decode(errors="replace")
        if not any(place in text for place in PLACES) and not SOMEONES_HOME.search(text):
            continue  # to look at each line takes ten times as long
        for line in text.splitlines():
            made_up = name.parts[0] == "tests"
            if any(place in line for place in PLACES - {"//"}) or (
                SOMEONES_HOME.search(line) and not made_up
            ):
                found.append(f"{name}: {line.strip()}")
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "agh").rglob("*.py"))
        if (source := path.read_text()).strip() and not ast.get_docstring(ast.parse(source))
    ]
    assert silent == []


# Documents of users and of other programs, in examples and in the inputs of tests.
OTHERS_DOCUMENTS = {
    *("AGENTS.md", "MEMBER.md", "a.md", "advocate.md", "brief.md", "deliberation.md", "memo.md", "notes.md"),
    *("question.md", "style.md", "task.md"),
}
DOCUMENT = re.compile(r"[\w./~-]*[\w-]\.md\b")
CITATION = re.compile(r"\b[A-Z]{4,} (?:§|section \d)|\bseeds/\d")


def missing_documents(path: Path, text: str, names: set[str]) -> list[str]:
    """Return what a file cites that is not in the repository; `names` are the names of all documents."""
    cited = []
    lines = [line for line in text.splitlines() if ".md" in line]  # in the others the pattern is slow
    for name in DOCUMENT.findall("\n".join(lines)):
        is_there = any((folder / name).is_file() for folder in (ROOT, path.parent))
        if not is_there and name not in names and os.path.basename(name) not in OTHERS_DOCUMENTS:
            cited.append(name)
    return cited + CITATION.findall(text)


def test_every_document_that_is_named_exists() -> None:
    files = tracked()
    names = {path.name for path in files if path.suffix == ".md"}
    missing = {
        str(path.relative_to(ROOT)): cited
        for path in files
        if (cited := missing_documents(path, path.read_bytes().decode(errors="replace"), names))
    }
    assert missing == {}


@pytest.mark.parametrize(
    "text", ["see docs/nothing" + ".md", "as in NOTES" + ".md", "# SPEC" + " §9", "seeds" + "/000"]
)
def test_a_missing_document_is_noticed(text: str) -> None:
    assert missing_documents(ROOT / "README.md", text, {"README.md"})
