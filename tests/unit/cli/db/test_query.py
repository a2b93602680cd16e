"""`agh db query`, as the installed program."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.build import Home, conversation, says, user
from tests.support.database import append, rich
from tests.support.imports import imported
from tests.support.output import OWN_STYLES, UNSAFE, message_of
from tests.support.program import Agh
from tests.support.terminal import run_on_terminal
from tests.support.wait import PATIENCE

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"


@pytest.fixture
def file(home: Home, agh: Agh, tmp_path: Path) -> Path:
    rich(home, name="full")
    agh("db", "build", tmp_path / "agh.db")
    return tmp_path / "agh.db"


def test_every_format(agh: Agh, file: Path) -> None:
    sql = "SELECT role, content AS text, NULL AS empty FROM messages ORDER BY id LIMIT 2"
    rows = [
        {"role": "user", "text": "Explain the stop path.", "empty": None},
        {"role": "assistant", "text": "", "empty": None},
    ]
    assert json.loads(agh("db", "query", file, sql).stdout) == rows
    assert json.loads(agh("db", "query", file, sql, "--json").stdout) == rows
    lines = agh("db", "query", file, sql, "--nl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = agh("db", "query", file, sql, "--table").stdout.splitlines()
    assert table[0].split() == ["role", "text", "empty"] and table[1].startswith("user       Explain the")
    values = list(csv.DictReader(agh("db", "query", file, sql, "--csv").stdout.splitlines()))
    assert values == [{key: value or "" for key, value in row.items()} for row in rows]


@pytest.mark.parametrize(
    ("form", "empty"), [("json", "[]\n"), ("nl", ""), ("csv", "id\n"), ("table", "id\n")]
)
def test_no_rows(agh: Agh, file: Path, form: str, empty: str) -> None:
    assert agh("db", "query", file, "SELECT id FROM sessions WHERE 0", f"--{form}").stdout == empty


def test_many_rows_are_streamed(agh: Agh, file: Path) -> None:
    sql = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 2345) SELECT n FROM t"
    assert [row["n"] for row in json.loads(agh("db", "query", file, sql).stdout)] == list(range(1, 2346))
    assert len(agh("db", "query", file, sql, "--csv").stdout.splitlines()) == 2346


def test_names_that_repeat_and_bytes(agh: Agh, file: Path) -> None:
    (row,) = json.loads(agh("db", "query", file, "SELECT 1 AS a, 2 AS a, x'00ff' AS b").stdout)
    assert row == {"a": 1, "a_2": 2, "b": {"$base64": True, "encoded": "AP8="}}


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM messages",
        "CREATE TABLE t (x)",
        "SELECT nothing",
        "SELECT 1; SELECT 2",
        "ATTACH DATABASE 'new.db' AS n",
        "VACUUM INTO 'new.db'",
        "PRAGMA user_version = 7",
        "",
    ],
)
def test_only_one_query_that_reads(agh: Agh, file: Path, sql: str) -> None:
    before = file.read_bytes()
    done = agh("db", "query", file, sql, code=None, cwd=file.parent)
    assert done.returncode in (0, 2) and (done.returncode == 2 or done.stdout in ("[]\n", ""))
    assert file.read_bytes() == before and not (file.parent / "new.db").exists()


def test_other_files_are_refused(home: Home, agh: Agh, tmp_path: Path) -> None:
    directory = home.session(conversation())
    assert "is not a database that agh built" in message_of(
        agh("db", "query", directory / "events.db", "SELECT 1", code=2)
    )
    assert "there is no database" in message_of(agh("db", "query", tmp_path / "none.db", "SELECT 1", code=4))
    agh("db", "query", "a", "b", "c", code=2)


def test_a_time_limit(agh: Agh, file: Path) -> None:
    assert message_of(agh("db", "query", file, ENDLESS, "--timeout", "0.2", code=3)) == (
        "timed out after 0.2 s waiting for the query"
    )


def test_ctrl_c_ends_it(agh: Agh, file: Path) -> None:
    sql = ENDLESS.replace("count(*) FROM t", "n FROM t WHERE n <= 600")  # prints these, then goes on
    with agh.start("db", "query", file, sql, "--nl", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '{"n":1}\n'
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()


def test_agent_text_cannot_drive_the_terminal(home: Home, file: Path, agh: Agh) -> None:
    home.session([user("go"), says("evil \x1b]0;owned\x07 \u202e \x9b31m")])
    agh("db", "build", file)
    for form in ("--table", "--json", "--nl", "--csv"):
        sql = "SELECT content AS 'a\x1b[31m' FROM messages WHERE content LIKE 'evil%'"
        _, shown = run_on_terminal("db", "query", file, sql, form)
        assert "evil" in shown
        assert not UNSAFE.search(OWN_STYLES.sub("", shown)), form


def test_without_a_file_all_sessions_as_they_are_now(home: Home, agh: Agh) -> None:
    sql = "SELECT content FROM messages WHERE role = 'user' ORDER BY timestamp"
    directory = home.session([user("first", at="2026-01-01T00:00:00.000Z")])
    assert json.loads(agh("db", "query", sql).stdout) == [{"content": "first"}]
    append(directory, user("second", turn="turn-2"))
    assert len(json.loads(agh("db", "query", sql).stdout)) == 2
    (cached,) = Path(os.environ["HOME"], ".cache").rglob("sessions.db")
    assert stat.S_IMODE(cached.stat().st_mode) == 0o600
    cached.write_bytes(b"garbage" * 100)
    assert len(json.loads(agh("db", "query", sql).stdout)) == 2
    data = bytearray(cached.read_bytes())
    data[5000:] = b"\xff" * (len(data) - 5000)
    cached.write_bytes(data)
    append(directory, user("third", turn="turn-3"))
    assert len(json.loads(agh("db", "query", sql).stdout)) == 3
    shutil.rmtree(directory)
    assert agh("db", "query", sql).stdout == "[]\n"


def test_damage_is_named_after_the_rows(home: Home, agh: Agh) -> None:
    home.session(conversation())
    (home.session(conversation()) / "events.db").write_bytes(b"x" * 200)
    done = agh("db", "query", "SELECT count(*) AS n FROM sessions", code=8)
    assert json.loads(done.stdout) == [{"n": 1}] and "left out" in done.stderr


def test_an_up_to_date_default_imports_nothing_heavy(home: Home) -> None:
    directory = home.session(conversation())
    for name in ("events.db", "meta.json"):
        os.utime(directory / name, (1, 1))
    assert "sqlite_utils" in imported("db", "query", "SELECT 1")
    assert "sqlite_utils" not in imported("db", "query", "SELECT 1")


def test_it_is_a_database_for_other_programs(file: Path) -> None:
    db = sqlite3.connect(f"file:{file}?immutable=1", uri=True)
    assert db.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    db.close()
