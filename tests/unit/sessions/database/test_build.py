"""The database has what the logs have; it is up to date, whole and private, or not there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from agh.core.events import Draft, draft, marker
from agh.errors import DatabaseBusy, DatabaseForeign, DatabaseRedacted, DatabaseVersion, OutputFailed
from agh.home import Session
from agh.sessions.database.build import build
from agh.store import meta
from tests.support.build import (
    Home,
    calls,
    child,
    conversation,
    finishes,
    returns,
    says,
    take_lock,
    thinks,
    user,
)
from tests.support.database import append, contents, rich, select

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agh.db"


def test_every_table_is_filled(home: Home, file: Path) -> None:
    session_id = rich(home, name="full", title="The stop path").name
    report = build(str(file))
    assert (report.updated, report.unchanged, report.deleted, report.damaged) == (1, 0, 0, [])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = contents(file)
    assert all(rows.values())
    sql = "SELECT id, name, agent_name, phase, cost_amount, turns, events FROM sessions"
    assert select(file, sql) == [(session_id, "full", "general", "completed", 0.75, None, 19)]
    sql = "SELECT turn_id, sequence, last_sequence, stop_reason, error FROM turns ORDER BY id"
    assert select(file, sql) == [
        ("turn-1", 1, 10, "end_turn", None),
        ("turn-2", 11, 18, "error", "overloaded"),
    ]
    assert select(file, "SELECT seconds FROM turns WHERE turn_id = 'turn-2'") == [(9.0,)]
    sql = "SELECT t.turn_id, m.sequence, role, content, thinking FROM messages m JOIN turns t ON t.id = turn"
    assert select(file, sql + " ORDER BY m.id") == [
        ("turn-1", 1, "user", "Explain the stop path.", None),
        ("turn-1", 2, "assistant", "", "Need the lifecycle code path."),
        ("turn-1", 7, "assistant", "AGH first marks the session stopping...", None),
        ("turn-2", 11, "user", "Change it", None),
        ("turn-2", 16, "assistant", "It is zebra done.", None),
    ]
    sql = "SELECT tool_name, kind, title, seconds, outcome, input FROM tool_calls ORDER BY id"
    (first, edit, bash) = select(file, sql)
    assert first[:3] == ("Read", None, "Read session.go") and first[5] == '{"path":"session.go"}'
    assert edit == ("Edit", "edit", "Edit a.py", 2.5, "ok", None)
    assert bash[4] == "failed"
    sql = "SELECT c.tool_name, r.outcome, r.text FROM tool_results r JOIN tool_calls c ON c.id = r.tool_call"
    assert select(file, sql + " ORDER BY r.id") == [
        ("Read", "ok", "package session"),
        ("Edit", "ok", "patched"),
        ("Bash", "failed", "exit 1"),
    ]
    sql = "SELECT path, action, c.tool_name FROM files JOIN tool_calls c ON c.id = tool_call ORDER BY path"
    assert select(file, sql) == [
        ("/repo/a.py", "edit", "Edit"),
        ("/repo/b.py", "edit", "Edit"),
        ("session.go", "Read", "Read"),
    ]
    columns = "request_id, decision, p.seconds, c.title"
    sql = f"SELECT {columns} FROM permissions p JOIN tool_calls c ON c.id = tool_call"
    assert select(file, sql) == [("r1", "allowed", 1.0, "Edit a.py")]
    columns = "request_id, q.mode, q.message, q.decision, q.answer, q.seconds, c.title, s.agent_name"
    joins = "JOIN tool_calls c ON c.id = q.tool_call JOIN turns t ON t.id = q.turn JOIN sessions s"
    sql = f"SELECT {columns} FROM questions q {joins} ON s.id = q.session_id"
    answer = ("q1", "form", "Which one?", "accepted", '{"answer":"both"}', 2.0, "Edit a.py", "general")
    assert select(file, sql) == [answer]
    assert select(file, "SELECT fields FROM questions") == [('[{"name":"answer","type":"string"}]',)]
    assert select(file, "SELECT kind, summary, redacted FROM markers") == [
        ("context_reset", "the agent forgot", 0)
    ]
    assert select(file, "SELECT type, kind, summary FROM failures ORDER BY id") == [
        ("error", "turn_error", "overloaded"),
        ("session_stopped", "process_exit", "it died"),
    ]


def test_views_and_full_text(home: Home, file: Path) -> None:
    rich(home)
    build(str(file))
    assert select(file, "SELECT * FROM cost_by_day") == [
        ("2026-04-16", "general", "USD", 2, 0.75, 8, None, 11)
    ]
    assert select(file, "SELECT tool, agent_name, calls, failed, max_seconds FROM slowest_tools LIMIT 1") == [
        ("Edit", "general", 1, 0, 2.5)
    ]
    assert select(file, "SELECT kind, agent_name, failures, sessions FROM failure_kinds ORDER BY kind") == [
        ("process_exit", "general", 1, 1),
        ("turn_error", "general", 1, 1),
    ]
    sql = "SELECT agent_name, decision, decided_by, questions, mean_seconds FROM question_answers"
    assert select(file, sql) == [("general", "accepted", "user", 1, 2.0)]
    assert select(file, "SELECT action, decision, decided_by, requests FROM permission_decisions") == [
        ("edit", "allowed", "user", 1)
    ]
    sql = (
        "SELECT content FROM messages WHERE id IN (SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?)"
    )
    assert select(file, sql, "zebra") == [("It is zebra done.",)]
    sql = "SELECT count(*) FROM tool_results_fts WHERE tool_results_fts MATCH 'patched'"
    assert select(file, sql) == [(1,)]


def _random_events(chance: random.Random, turn: int) -> list[Draft]:
    name, call = f"turn-{turn}", f"call-{chance.randrange(3)}"
    older = f"turn-{chance.randrange(max(1, turn))}"
    return chance.choice(
        [
            [user("hello", turn=name)],
            [says("a ", turn=name), says("b", turn=name)],
            [thinks("hm", turn=name)],
            [calls(call, turn=name, tool_input={"path": f"/{call}"})],
            [returns(call, turn=name)],
            [returns(call, turn=older)],
            [finishes(chance.choice((name, older)))],
            [marker("context_reset", "forgot", diagnostic="why")],
            [
                draft(
                    "transcript_marker.redacted", marker_id=f"evt-{chance.randrange(1, 40):06d}", summary="-"
                )
            ],
            [draft("error", turn_id=name, error="x")],
        ]
    )


@pytest.mark.parametrize("seed", range(12))
def test_updating_step_by_step_gives_what_building_at_once_gives(
    home: Home, file: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    directories = [home.session(), home.session()]
    turns = [0, 0]
    for _ in range(25):
        number = chance.randrange(2)
        turns[number] += chance.random() < 0.4
        append(directories[number], *_random_events(chance, turns[number]))
        if chance.random() < 0.6:
            build(str(file))
    build(str(file))
    build(str(tmp_path / "whole.db"))
    assert contents(file) == contents(tmp_path / "whole.db")


def test_only_what_changed_is_read_again(home: Home, file: Path) -> None:
    directories = [home.session(conversation()) for _ in range(3)]
    for directory in directories:
        for name in ("events.db", "meta.json"):
            os.utime(directory / name, (1, 1))
    assert build(str(file)).updated == 3
    before = file.read_bytes()
    assert (report := build(str(file))).updated == 0 and report.unchanged == 3
    append(directories[1], user("more", turn="turn-9"))
    assert (report := build(str(file))).updated == 1 and report.unchanged == 2
    assert len(before) and select(file, "SELECT count(*) FROM messages WHERE content = 'more'") == [(1,)]
    metadata = meta.read(Session.at(directories[0]))
    meta.write(Session.at(directories[0]), {**metadata, "name": "renamed"})
    build(str(file))
    assert select(file, "SELECT count(*) FROM sessions WHERE name = 'renamed'") == [(1,)]


def test_a_log_that_was_replaced_is_read_from_its_beginning(home: Home, file: Path, tmp_path: Path) -> None:
    directory = home.session(
        [user("old one"), says("yes"), user("old two", turn="turn-2")], id="sess-00000001"
    )
    build(str(file))
    shutil.rmtree(directory)
    home.session([user("new", at="2026-05-01T00:00:00.000Z")], id="sess-00000001")
    build(str(file))
    assert select(file, "SELECT content FROM messages") == [("new",)]
    contents(file)


def test_a_deleted_session_is_deleted_here_but_not_those_of_another_home(
    home: Home, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = home.session(conversation()), rich(home)
    build(str(file))
    monkeypatch.setenv("AGH_HOME", str(tmp_path / "other"))
    other = Home(tmp_path / "other").session(conversation())
    assert build(str(file)).deleted == 0
    monkeypatch.setenv("AGH_HOME", str(home.path))
    shutil.rmtree(goes)
    assert build(str(file)).deleted == 1
    assert {row[0] for row in contents(file)["sessions"]} == {stays.name, other.name}
    assert select(file, "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'zebra'") == [(0,)]


def test_some_sessions_only(home: Home, file: Path) -> None:
    old, new = (
        home.session(conversation()),
        home.session(conversation(), updated_at="2026-06-01T00:00:00.000Z"),
    )
    build(str(file), [old.name])
    assert select(file, "SELECT id FROM sessions") == [(old.name,)]
    append(old, user("more", turn="turn-9"))
    report = build(str(file), since="2026-05-01T00:00:00.000Z")
    assert (report.updated, report.unchanged) == (1, 1)
    assert {id for (id,) in select(file, "SELECT id FROM sessions")} == {old.name, new.name}
    assert select(file, "SELECT count(*) FROM messages WHERE content = 'more'") == [(0,)]


def test_a_damaged_session_is_left_out_and_its_old_rows_stay(home: Home, file: Path) -> None:
    good, bad = home.session(conversation()), home.session(conversation())
    build(str(file))
    before = contents(file)
    append(good, user("more", turn="turn-2"))
    (bad / "events.db").write_bytes(b"x" * 200)
    never = home.directory()
    report = build(str(file))
    assert len(report.damaged) == 2
    assert any(bad.name in error for error in report.damaged)
    assert any(never.name in error for error in report.damaged)
    assert len(contents(file)["messages"]) == len(before["messages"]) + 1


def test_damage_in_the_middle_of_a_log_leaves_nothing_half_read(home: Home, file: Path) -> None:
    directory = home.session([user(f"{number} " + "x" * 3000, turn=f"t{number}") for number in range(3000)])
    with open(directory / "events.db", "r+b") as log:
        log.seek(-4 << 20, os.SEEK_END)
        log.write(b"\xff" * (1 << 20))
    assert build(str(file)).damaged
    assert contents(file)["sessions"] == [] and contents(file)["messages"] == []


KILLED = """
import os, signal, sys
from agh.sessions.database.build import build
def progress(ids, total):
    for number, session_id in enumerate(ids):
        if number == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        yield session_id
    os.kill(os.getpid(), signal.SIGKILL)
build(sys.argv[1], progress=progress)
"""


@pytest.mark.parametrize("number", [0, 2, 99])
def test_a_killed_first_build_leaves_no_file(home: Home, file: Path, number: int) -> None:
    for _ in range(4):
        home.session(conversation())
    with child(KILLED, file, number) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert not file.exists()
    assert build(str(file)).updated == 4
    assert [path.name for path in file.parent.iterdir() if "building" in path.name] == []


@pytest.mark.parametrize("number", [0, 2, 99])
def test_a_killed_update_leaves_the_old_content(home: Home, file: Path, tmp_path: Path, number: int) -> None:
    directories = [home.session(conversation()) for _ in range(4)]
    build(str(file))
    before = contents(file)
    for directory in directories:
        append(directory, *[user("more " * 1000, turn=f"turn-{number}") for number in range(5, 200)])
    with child(KILLED, file, number) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert contents(file) == before
    build(str(file))
    build(str(tmp_path / "whole.db"))
    assert contents(file) == contents(tmp_path / "whole.db")


WAITS = """
import sys
from agh.sessions.database.build import build
def progress(ids, total):
    print("building", flush=True)
    sys.stdin.read()
    yield from ids
print(build(sys.argv[1], progress=progress).updated)
"""


@pytest.mark.parametrize("is_update", [False, True], ids=["first", "update"])
def test_two_builds_at_once(home: Home, file: Path, monkeypatch: pytest.MonkeyPatch, is_update: bool) -> None:
    monkeypatch.setattr("agh.sessions.database.file.BUSY", 0.2)
    directory = home.session(conversation())
    if is_update:
        build(str(file))
        append(directory, user("more", turn="turn-9"))
    with child(WAITS, file) as process:
        assert process.stdout and process.stdin
        assert process.stdout.readline() == "building\n"
        with pytest.raises(DatabaseBusy):
            build(str(file))
        if is_update:
            assert select(file, "SELECT count(*) FROM sessions") == [(1,)]  # readers see the old content
        process.stdin.close()
        assert process.stdout.readline() == "1\n"
        assert process.wait(30) == 0
    contents(file)


@pytest.mark.parametrize("kind", ["text", "empty", "database", "log", "directory", "link", "fifo"])
def test_a_file_that_agh_did_not_build_is_not_touched(home: Home, file: Path, kind: str) -> None:
    directory = home.session(conversation())
    if kind == "text":
        file.write_text("dear diary " * 50)
    elif kind == "empty":
        file.touch()
    elif kind == "database":
        with closing(sqlite3.connect(file)) as db:
            db.execute("CREATE TABLE sessions (id)")
            db.commit()
    elif kind == "log":
        shutil.copyfile(directory / "events.db", file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to(file.parent / "nowhere")
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises((DatabaseForeign, OutputFailed)):
        build(str(file))
    assert (file.read_bytes() if file.is_file() else None) == before
    assert file.is_symlink() == (kind == "link")


def test_a_database_of_another_version_is_refused(home: Home, file: Path) -> None:
    build(str(file))
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(DatabaseVersion):
        build(str(file))


def test_there_must_be_a_directory(home: Home, tmp_path: Path) -> None:
    with pytest.raises(OutputFailed):
        build(str(tmp_path / "nowhere" / "agh.db"))


def test_redacted_stays_redacted(home: Home, file: Path, tmp_path: Path) -> None:
    halves = [says(f"token {SECRET[:15]}"), says(SECRET[15:] + " end")]
    directory = home.session([user(f"use {SECRET}"), *halves, calls("c", tool_input={"t": SECRET})])
    build(str(file), redact=True)
    append(directory, user(f"again {SECRET}", turn="turn-2"), returns("d", tool_result={"content": SECRET}))
    build(str(file))  # without the flag
    assert SECRET[4:].encode() not in file.read_bytes() and SECRET[15:].encode() not in file.read_bytes()
    assert "[redacted]" in str(contents(file)["messages"])
    build(str(tmp_path / "open.db"))
    with pytest.raises(DatabaseRedacted):
        build(str(tmp_path / "open.db"), redact=True)


def test_a_live_session_is_read_while_it_is_written(home: Home, file: Path) -> None:
    directory = home.session([user("go")], state="active", stop_reason=None)
    with take_lock(directory):
        build(str(file))
        assert select(file, "SELECT state FROM sessions") == [("active",)]
    build(str(file))  # its keeper has vanished; no file has changed
    assert select(file, "SELECT state, failure_kind FROM sessions") == [("stopped", "process_exit")]
