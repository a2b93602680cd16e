"""What a command costs before it does anything: the modules that it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.build import Home, conversation
from tests.support.imports import HEAVY, below, imported

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
    ["session", "transcript", "talk", "-o", "text"],
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


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_command_that_reads_imports_nothing_heavy(home: Home, args: list[str]) -> None:
    home.session(conversation(), name="talk")
    home.session(conversation()[:3], state="active", stop_reason=None)
    modules = imported(*args)
    assert "agh.cli.main" in modules
    assert [name for name in sorted(modules) if below(name, HEAVY)] == []


def test_the_version_imports_nothing() -> None:
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, text=True, timeout=30
    )
    earlier = {line.rsplit("|", 1)[1].strip() for line in bare.stderr.splitlines()}
    modules = imported("--version")
    assert not any(below(name, ("click", "sqlite3", "orjson", *HEAVY)) for name in modules)
    assert {name for name in modules - earlier if below(name, ("agh",))} <= {"agh", "agh.__main__"}
