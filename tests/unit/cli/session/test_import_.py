"""`agh session import` of exported sessions: whole or not at all, and nothing in a file can do harm."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home, conversation, says, take_lock, user
from tests.support.files import tree
from tests.support.program import Agh, in_process
from tests.support.wait import wait_until
from tests.unit.cli.session.test_export import rich

Lines = list[dict[str, Any]]


def rows_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = ("events", "token_usage", "hook_runs", "inputs", "permissions")
    rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    db.close()
    return rows


def elsewhere(tmp_path: Path, name: str = "other") -> tuple[Path, dict[str, str]]:
    home = tmp_path / name
    return home / "sessions", {**os.environ, "AGH_HOME": str(home)}


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (report,) = json.loads(done.stdout)["imports"]
    found: dict[str, Any] = report
    return found


@pytest.mark.parametrize("format", ["jsonl", "db"])
def test_a_round_trip_keeps_every_row(home: Home, agh: Agh, tmp_path: Path, format: str) -> None:
    origin = rich(home)
    with take_lock(origin) as owner:
        from agh.core.events import Draft
        from agh.store.writer import Writer

        with Writer(owner, "another agent") as log:  # contents that a parse and a dump would change
            odd = [
                '{"n":123456789012345678901234567890,"e":1E5,"u":"\\u00e4/\\/","d":1,"d":2}',
                '{ "a" : 1.10 }',
            ]
            log.append([Draft("system", "", text, "2026-04-16T01:00:00.000Z") for text in odd])
    sessions, env = elsewhere(tmp_path)
    agh("session", "export", "full", "-o", format, "--to", tmp_path / "copy")
    report = outcome(agh("session", "import", tmp_path / "copy", "-o", "json", env=env))
    assert (report["session_id"], report["status"], report["events"]) == (origin.name, "imported", 12)
    assert rows_of(sessions / origin.name / "events.db") == rows_of(origin / "events.db")
    then, now = (json.loads((path / "meta.json").read_bytes()) for path in (origin, sessions / origin.name))
    for key in (
        "id",
        "name",
        "agent_name",
        "workspace_path",
        "acp_session_id",
        "created_at",
        "updated_at",
        "stop_reason",
    ):
        assert now[key] == then[key]
    agh("session", "export", "full", "-o", format, "--to", tmp_path / "again", env=env)
    if format == "jsonl":
        lines, again = ((tmp_path / name).read_bytes().splitlines()[1:] for name in ("copy", "again"))
        assert lines == again


def test_through_a_pipe(home: Home, agh: Agh, tmp_path: Path) -> None:
    origin = rich(home)
    sessions, env = elsewhere(tmp_path)
    exported = agh("session", "export", "full").stdout
    report = outcome(agh("session", "import", "-", "-o", "json", env=env, stdin=None, input=exported))
    assert (report["path"], report["status"]) == ("-", "imported")
    assert rows_of(sessions / origin.name / "events.db") == rows_of(origin / "events.db")


def test_what_jq_has_written_again_is_read_too(home: Home, agh: Agh, tmp_path: Path) -> None:
    rich(home)
    lines = [json.loads(line) for line in agh("session", "export", "full").stdout.splitlines()]
    copy = tmp_path / "sorted.jsonl"
    copy.write_text(
        "".join(json.dumps(line, sort_keys=number > 0) + "\n" for number, line in enumerate(lines))
    )
    _, env = elsewhere(tmp_path)
    agh("session", "import", copy, env=env)
    again = [json.loads(line) for line in agh("session", "export", "full", env=env).stdout.splitlines()]
    assert again[1:] == lines[1:]


def test_a_session_that_is_here(home: Home, agh: Agh, tmp_path: Path) -> None:
    origin = rich(home)
    copy = tmp_path / "copy.jsonl"
    agh("session", "export", "full", "--to", copy)
    before = tree(origin)
    assert outcome(agh("session", "import", copy, "-o", "json"))["status"] == "unchanged"
    assert tree(origin) == before
    other = outcome(agh("session", "import", copy, "--new-id", "-o", "json"))
    assert other["session_id"] != origin.name
    document = json.loads((home.path / "sessions" / other["session_id"] / "meta.json").read_bytes())
    assert (document["name"], document["acp_session_id"], document["acp_session_ids"]) == (None, None, [])
    text = copy.read_text().replace("Explain the stop path", "Another beginning")
    copy.write_text(text)
    result = agh("session", "import", copy, "-o", "json", code=6)
    assert json.loads(result.stderr)["error"]["code"] == "session_exists"
    assert tree(origin) == before


def test_a_name_that_is_taken_is_not_taken_over(home: Home, agh: Agh, tmp_path: Path) -> None:
    origin = rich(home)
    agh("session", "export", "full", "--to", tmp_path / "copy.db")
    sessions, env = elsewhere(tmp_path)
    Home(sessions.parent)
    shutil.copytree(origin, sessions / "sess-00000000")
    meta = json.loads((sessions / "sess-00000000" / "meta.json").read_bytes())
    (sessions / "sess-00000000" / "meta.json").write_text(
        json.dumps(meta | {"id": "sess-00000000", "workspace_path": str(tmp_path)})
    )
    sessions.parent.chmod(0o700)
    agh("session", "import", tmp_path / "copy.db", "--workspace", tmp_path, env=env)
    document = json.loads((sessions / origin.name / "meta.json").read_bytes())
    assert (document["name"], document["workspace_path"]) == (None, str(tmp_path))


def test_what_would_run_or_be_allowed_is_left_out(home: Home, agh: Agh, tmp_path: Path) -> None:
    evil = {
        "command": ["touch", str(tmp_path / "owned")],
        "permissions": "approve-all",
        "mcp_servers": [{"name": "x"}],
    }
    origin = home.session(conversation(), name="evil", **evil)
    with take_lock(origin) as owner:
        from agh.store.writer import Writer

        with Writer(owner, "x") as log, log.transaction() as db:
            for status in ("queued", "dispatching", "sent"):
                db.execute(
                    "INSERT INTO inputs (generation, mode, status, prompt, turn_id, created_at, updated_at) "
                    "VALUES (0, 'queue', ?, '[]', '', 't', 't')",
                    [status],
                )
    copy = tmp_path / "copy.jsonl"
    agh("session", "export", "evil", "--to", copy)

    def brought(*args: str, name: str) -> tuple[list[Any], list[str], str]:
        sessions, env = elsewhere(tmp_path, name)
        result = agh("session", "import", copy, *args, env=env)
        document = json.loads((sessions / origin.name / "meta.json").read_bytes())
        inputs = [row[3] for row in rows_of(sessions / origin.name / "events.db")["inputs"]]
        return [document.get(key) for key in evil], inputs, result.stderr

    kept, inputs, said = brought(name="a")
    assert kept == [None, None, None] and inputs == ["interrupted", "interrupted", "sent"]
    assert "command, permissions, mcp_servers" in said.replace(
        "mcp_servers, permissions", "permissions, mcp_servers"
    )
    kept, inputs, _ = brought("--trust", name="b")
    assert kept == list(evil.values()) and inputs == ["queued", "dispatching", "sent"]


def _edit(number: int, **fields: Any) -> Callable[[Lines], Lines]:
    return lambda lines: [{**line, **fields} if at == number else line for at, line in enumerate(lines)]


def _session(**fields: Any) -> Callable[[Lines], Lines]:
    return lambda lines: [{**lines[0], "session": {**lines[0]["session"], **fields}}, *lines[1:]]


HOSTILE: dict[str, Callable[[Lines], Lines]] = {
    "another schema": _edit(0, schema="agh.session.export.v9"),
    "no session": _edit(0, session=None),
    "an id that escapes": _session(id="../../../evil"),
    "an id that is a number": _session(id=7),
    "no agent": _session(agent_name=None),
    "a relative workspace": _session(workspace_path="."),
    "a list for a title": _session(title=["x"]),
    "cut short": lambda lines: lines[:-2],
    "cut before the events": lambda lines: lines[:1],
    "a gap": lambda lines: lines[:3] + lines[4:],
    "an event twice": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "out of order": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a sequence that is text": _edit(3, sequence="3"),
    "a huge sequence": _edit(3, sequence=2**63),
    "a time with a quote in it": _edit(3, timestamp='"},{"x":"'),
    "a content that is no object": _edit(3, content=[1]),
    "no content": lambda lines: [{key: line[key] for key in line if key != "content"} for line in lines],
    "a table that is not ours": lambda lines: [*lines, {"table": "sqlite_master", "row": {"x": 1}}],
    "a column that is not there": lambda lines: [
        *lines[:-1],
        {**lines[-1], "row": {"x); DROP TABLE events;--": 1}},
    ],
    "an object in a column": lambda lines: [
        *lines[:-1],
        {**lines[-1], "row": {**lines[-1]["row"], "title": {}}},
    ],
    "a huge number": lambda lines: [
        *lines[:-1],
        {**lines[-1], "row": {**lines[-1]["row"], "title": 2**64 - 1}},
    ],
    "nothing where something must be": lambda lines: [
        *lines[:-1],
        {**lines[-1], "row": {"request_id": "r2"}},
    ],
    "a line that is a list": lambda lines: [*lines, []],  # type: ignore[list-item]
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_and_nothing_is_left(
    home: Home, agh: Agh, tmp_path: Path, change: Callable[[Lines], Lines]
) -> None:
    rich(home)
    lines = [json.loads(line) for line in in_process("session", "export", "full").stdout.splitlines()]
    _refuse(tmp_path, "".join(json.dumps(line) + "\n" for line in change(lines)).encode())


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":"agh.session.export.v1","session":{"id',
        b'{"schema":"agh.session.export.v1","session":{"id":"\xff\xfe"}}\n',
        b'{"schema":"agh.session.export.v1"}\n',
        b'{"schema":"agh.session.export.v1",' + b'"x":' + b"[" * 100_000,
    ],
    ids=["torn", "not UTF-8", "nothing in it", "deep"],
)
def test_a_file_that_is_no_json_is_refused(home: Home, tmp_path: Path, data: bytes) -> None:
    _refuse(tmp_path, data)


def _refuse(tmp_path: Path, data: bytes, name: str = "hostile.jsonl") -> None:
    (tmp_path / name).write_bytes(data)
    sessions, _ = elsewhere(tmp_path)
    os.environ["AGH_HOME"], before = str(sessions.parent), os.environ["AGH_HOME"]
    try:
        result = in_process("session", "import", str(tmp_path / name), "-o", "json")
    finally:
        os.environ["AGH_HOME"] = before
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "import_invalid" and len(error["message"]) < 600
    assert not sessions.exists() or list(sessions.iterdir()) == []


FREE = "DROP TRIGGER events_no_update"
DATABASES = {
    "a view for events": "ALTER TABLE events RENAME TO e; CREATE VIEW events AS SELECT * FROM e",
    "no description": "DROP TABLE session",
    "two descriptions": "INSERT INTO session SELECT * FROM session",
    "blob for content": f"{FREE}; UPDATE events SET content = x'00ff' WHERE sequence = 2",
    "bad text": f"{FREE}; UPDATE events SET type = CAST(x'ff' AS TEXT) WHERE sequence = 2",
    "a gap": "DROP TRIGGER events_no_delete; DELETE FROM events WHERE sequence = 2",
    "other columns": "ALTER TABLE inputs ADD COLUMN evil TEXT DEFAULT 'x'",
    "blob in a table": "UPDATE hook_runs SET output = x'00'",
    "another schema": "UPDATE session SET schema = 'x'",
    "no JSON": "UPDATE session SET meta = '{'",
}


@pytest.mark.parametrize("sql", DATABASES.values(), ids=DATABASES)
def test_a_hostile_database_is_refused(home: Home, tmp_path: Path, sql: str) -> None:
    rich(home)
    path = tmp_path / "x.db"
    in_process("session", "export", "full", "--to", str(path))
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()
    _refuse(tmp_path, path.read_bytes(), "hostile.db")


def test_a_damaged_database_is_refused(home: Home, tmp_path: Path) -> None:
    rich(home)
    path = tmp_path / "x.db"
    in_process("session", "export", "full", "--to", str(path))
    data = path.read_bytes()
    _refuse(tmp_path, data[: len(data) // 2], "cut.db")
    _refuse(tmp_path, data[:4096] + os.urandom(len(data) - 4096), "noise.db")


def test_files_that_are_none(home: Home, agh: Agh, tmp_path: Path) -> None:
    for data in (b"", b"hello", b"\x00" * 100, b"SQLite format 3\x00" + b"\x00" * 100):
        (tmp_path / "x").write_bytes(data)
        result = in_process("session", "import", str(tmp_path / "x"))
        assert result.returncode == 2 and "its format is not one of" in result.stderr
    assert in_process("session", "import", str(tmp_path / "nope")).returncode == 2
    assert in_process("session", "import", str(tmp_path)).returncode == 2
    assert in_process("session", "import").returncode == 2
    assert in_process("session", "import", "--from", "carrier-pigeon").returncode == 2


def test_one_bad_file_keeps_no_good_one_out(home: Home, agh: Agh, tmp_path: Path) -> None:
    origin = rich(home)
    (tmp_path / "bad.jsonl").write_text('{"schema":"agh.session.export.v1"}\n')
    agh("session", "export", "full", "--to", tmp_path / "good.jsonl")
    sessions, env = elsewhere(tmp_path)
    result = agh(
        "session", "import", tmp_path / "bad.jsonl", tmp_path / "good.jsonl", "-o", "jsonl", code=2, env=env
    )
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["failed", "imported"]
    assert [path.name for path in sessions.iterdir()] == [origin.name]


def test_killed_at_any_moment_nothing_half_is_left(home: Home, agh: Agh, tmp_path: Path) -> None:
    origin = home.session([event for _ in range(1500) for event in (user("x" * 200), says("y" * 200))])
    copy = tmp_path / "copy.jsonl"
    agh("session", "export", origin.name, "--to", copy)
    expected = rows_of(origin / "events.db")
    sessions, env = elsewhere(tmp_path)

    def import_until(name: str) -> bool:
        """Kill an import as soon as it has made this file; return whether it was still at it."""
        options = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with agh.start("session", "import", copy, **options) as process:
            hidden = f".making-*-{process.pid}"  # what an earlier kill left has another pid, and vanishes
            try:
                wait_until(lambda: any(sessions.glob(f"{hidden}/{name}")) or process.poll() is not None)
            finally:
                process.kill()
        return any(sessions.glob(hidden))

    interrupted = 0
    for name in ("lock", "events.db", "events.db-wal", "meta.json"):
        interrupted += import_until(name)
        listed = json.loads(agh("session", "list", "--all", "-o", "json", env=env).stdout)["sessions"]
        if listed:  # it was quicker than the kill
            assert rows_of(sessions / origin.name / "events.db") == expected
            shutil.rmtree(sessions / origin.name)
    assert interrupted >= 2, "the kills came too late to prove anything"
    agh("session", "import", copy, env=env)
    assert os.listdir(sessions) == [origin.name]
    assert rows_of(sessions / origin.name / "events.db") == expected


def test_two_at_once_are_one(home: Home, agh: Agh, tmp_path: Path) -> None:
    origin = rich(home)
    agh("session", "export", "full", "--to", tmp_path / "copy.db")
    sessions, env = elsewhere(tmp_path)
    argv = ("session", "import", tmp_path / "copy.db", "-o", "json")
    started = [agh.start(*argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    told = [(process.communicate(timeout=60), process.returncode) for process in started]
    done = sorted(
        json.loads(out)["imports"][0]["status"] if code == 0 else f"exit {code}" for (out, _), code in told
    )
    assert done == ["imported", "unchanged", "unchanged"]
    assert os.listdir(sessions) == [origin.name]


@pytest.mark.parametrize("path", ["fifo", "/dev/zero", "/dev/null"])
def test_only_a_regular_file_is_imported(agh: Agh, tmp_path: Path, path: str) -> None:
    """A pipe would wait for its other end, and a device never end."""
    if path == "fifo":
        path = str(tmp_path / path)
        os.mkfifo(path)
    for source in ((), ("--from", "jsonl")):
        done = agh("session", "import", path, *source, code=2, timeout=20)
        assert "not a regular file" in done.stderr
