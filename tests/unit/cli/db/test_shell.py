"""`agh db shell`, as the installed program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.build import Home, conversation
from tests.support.output import message_of
from tests.support.program import Agh

needs_sqlite3 = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="sqlite3 is not installed")


@needs_sqlite3
def test_it_is_the_sqlite3_shell_on_a_read_only_database(home: Home, agh: Agh, tmp_path: Path) -> None:
    home.session(conversation(), name="talk")
    file = tmp_path / "-agh.db"
    agh("db", "build", "--", "-agh.db", cwd=tmp_path)
    sql = "SELECT name FROM sessions; DELETE FROM sessions;"
    done = agh("db", "shell", "--", "-agh.db", input=sql, code=None, cwd=tmp_path, by_exec=True)
    assert done.stdout == "talk\n" and "readonly" in done.stderr
    assert file.exists()


@needs_sqlite3
def test_without_a_file(home: Home, agh: Agh) -> None:
    home.session(conversation(), name="talk")
    done = agh("db", "shell", input="SELECT name FROM sessions;", by_exec=True)
    assert done.stdout == "talk\n"


def test_without_sqlite3(home: Home, agh: Agh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert message_of(agh("db", "shell", code=4)) == "the program sqlite3 is not installed"
