"""What a command costs before it does anything: the modules that it imports."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.build import ROOT, Home, conversation, says
from tests.support.imports import HEAVY, below, imported

SCREENS = {"agh/cli/chat", "agh/cli/top"}  # the only code that may import prompt_toolkit
READING = [
    ["session", "list"],
    ["session", "list", "-o", "json"],
    ["session", "list", "--workspace", "."],
    ["config", "show"],
    ["config", "get", "agent"],
    ["workspace", "list"],
    ["skill", "show"],
    ["session", "status", "talk"],
    ["session", "status", "talk", "-o", "json"],
    ["session", "events", "talk"],
    ["session", "events", "talk", "-o", "human"],
    ["session", "events", "talk", "--follow"],
    ["session", "events", "--all"],
    ["session", "history", "talk"],
    ["session", "history", "talk", "-o", "json"],
    ["session", "transcript", "talk"],
    ["session", "transcript", "talk", "-o", "text"],
    ["session", "last", "talk"],
    ["session", "last", "talk", "--code"],
    ["session", "transcript", "talk", "-o", "json"],
    ["session", "recap", "talk"],
    ["session", "recap", "talk", "-o", "json"],
    ["session", "repair", "talk", "--dry-run"],
    ["session", "repair", "--all", "--dry-run"],
    ["session", "status", "nope"],
    ["--help"],
    ["session", "--help"],
    ["help", "prompt"],
    ["ls"],
    ["log", "talk"],
]


@pytest.mark.parametrize(
    ("args", "unneeded"),
    [
        (["session", "list", "--all"], {"locale", "difflib", "sqlite3", "agh.core.events", "agh.config"}),
        (
            ["session", "list", "-o", "json"],
            {"locale", "difflib", "sqlite3", "agh.core.events", "agh.config"},
        ),
        (["session", "status", "talk", "-o", "json"], {"locale", "difflib", "sqlite3", "agh.core.events"}),
    ],
    ids=["table", "json", "status"],
)
def test_a_short_command_imports_only_what_it_uses(home: Home, args: list[str], unneeded: set[str]) -> None:
    home.session(conversation(), name="talk")
    assert unneeded & imported(*args) == set()


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_command_that_reads_imports_nothing_heavy(home: Home, args: list[str]) -> None:
    code = says("```\ncode\n```", turn="turn-2")
    home.session([*conversation(), code], name="talk")
    home.session(conversation()[:3], state="active", stop_reason=None)
    modules = imported(*args)
    assert "agh.cli.main" in modules
    assert [name for name in sorted(modules) if below(name, HEAVY)] == []


def test_only_a_screen_imports_prompt_toolkit() -> None:
    """Not even the modules of all commands together, and in the sources only the folder of the screens."""
    code = (
        "import sys, click\n"
        "from agh.cli.main import root\n"
        "from agh.cli.tree import commands\n"
        "print(len(list(commands(root))), 'prompt_toolkit' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    count, is_imported = result.stdout.split()
    assert int(count) > 80, result.stderr
    assert is_imported == "False"
    sources = [path for folder in ("agh", "plugins") for path in (ROOT / folder).rglob("*.py")]
    users = [
        path for path in sources if re.search(r"^\s*(?:from|import) prompt_toolkit\b", path.read_text(), re.M)
    ]
    folders = {str(path.parent.relative_to(ROOT)) for path in users}
    assert "agh/cli/top" in folders
    assert folders <= SCREENS


def test_the_version_imports_nothing() -> None:
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, text=True, timeout=30
    )
    earlier = {line.rsplit("|", 1)[1].strip() for line in bare.stderr.splitlines()}
    modules = imported("--version")
    assert not any(below(name, ("click", "sqlite3", "orjson", *HEAVY)) for name in modules)
    assert {name for name in modules - earlier if below(name, ("agh",))} <= {"agh", "agh.__main__"}
