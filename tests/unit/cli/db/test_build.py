"""`agh db build`, as the installed program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.build import Home, conversation
from tests.support.database import rich, select
from tests.support.imports import imported
from tests.support.output import error_of, message_of
from tests.support.program import Agh


def test_what_it_says(home: Home, agh: Agh, tmp_path: Path) -> None:
    rich(home, name="full")
    home.session(conversation())
    file = tmp_path / "agh.db"
    assert agh("db", "build", file).stdout == f"{file}  2 updated, 0 unchanged, 0 deleted\n"
    report = json.loads(agh("db", "build", file, "full", "-o", "json").stdout)["database"]
    assert report["updated"] + report["unchanged"] == 1 and report["path"] == str(file)
    assert select(file, "SELECT count(*) FROM sessions") == [(2,)]
    agh("db", "build", file, "--all", "--since", "3d")


def test_damaged_sessions_are_named(home: Home, agh: Agh, tmp_path: Path) -> None:
    home.session(conversation())
    bad = home.session(conversation())
    (bad / "events.db").write_bytes(b"x" * 200)
    done = agh("db", "build", tmp_path / "agh.db", code=8)
    assert "1 updated" in done.stdout and f"left out: session {bad.name}" in done.stderr
    assert select(tmp_path / "agh.db", "SELECT count(*) FROM sessions") == [(1,)]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["a.db", "nobody"], 4),
        (["a.db", "talk", "--all"], 2),
        (["a.db", "--since", "yesterday"], 2),
        (["--redact"], 2),
        (["text.txt"], 2),
        (["nowhere/a.db"], 1),
    ],
)
def test_what_is_refused_changes_nothing(
    home: Home, agh: Agh, tmp_path: Path, args: list[str], code: int
) -> None:
    home.session(conversation(), name="talk")
    (tmp_path / "text.txt").write_text("dear diary")
    before = sorted(tmp_path.rglob("*"))
    assert message_of(agh("db", "build", *args, code=code, cwd=tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "text.txt").read_text() == "dear diary"


def test_errors_as_json(home: Home, agh: Agh, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("dear diary")
    error_of(agh("db", "build", tmp_path / "text.txt", "-o", "json", code=None), "database_foreign", 2)


def test_sqlite_utils_is_imported_only_to_build(home: Home, tmp_path: Path) -> None:
    file = str(tmp_path / "agh.db")
    assert "sqlite_utils" in imported("db", "build", file)
    for args in (["db", "query", file, "SELECT 1"], ["db", "metadata", file], ["db", "--help"]):
        assert "sqlite_utils" not in imported(*args)
