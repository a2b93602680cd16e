from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agh.store.create import create_log
from tests.support.build import Home, calls, conversation, returns, says, take_lock, user
from tests.support.files import tree
from tests.support.log_writer import LogWriter
from tests.support.output import error_of, message_of
from tests.support.program import AGH, Agh
from tests.support.wait import PATIENCE

CRASHED: dict[str, Any] = {"state": "active", "stop_reason": None, "acp_session_id": "acp-1"}


def crashed(home: Home, **fields: Any) -> Path:
    """A session whose keeper died while two tools ran in one turn, with another turn open before it."""
    return home.session(
        [
            user("first", turn="turn-1"),
            says("working", turn="turn-1"),
            user("second", turn="turn-2"),
            calls("call-1", turn="turn-2"),
            calls("call-2", name="Bash", turn="turn-2"),
            returns("call-1", turn="turn-2"),
            calls("call-3", name="Write", turn="turn-2"),
        ],
        **{**CRASHED, **fields},
    )


def events(agh: Agh, directory: Path, *args: object) -> list[dict[str, Any]]:
    lines = agh("session", "events", directory.name, *args).stdout.splitlines()
    return [json.loads(line) for line in lines]


def repair(agh: Agh, *args: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(agh("session", "repair", *args, "-o", "json").stdout)
    return document


def test_every_open_turn_is_closed_and_nothing_before_changes(agh: Agh, home: Home) -> None:
    directory = crashed(home)
    before = agh("session", "events", directory.name).stdout
    report = repair(agh, directory.name)
    assert list(report) == ["session_id", "issues", "actions", "persisted"]
    assert (report["session_id"], report["persisted"]) == (directory.name, True)
    assert [(issue["code"], issue["turn_id"]) for issue in report["issues"]] == [
        ("open_turn", "turn-1"),
        ("open_turn", "turn-2"),
        ("dangling_tool_call", "turn-2"),
        ("dangling_tool_call", "turn-2"),
        ("stale_metadata", ""),
    ]
    assert all(
        list(issue) == ["code", "severity", "turn_id", "event_id", "detail"] for issue in report["issues"]
    )
    assert [(action["code"], action["turn_id"], action["tool_call_id"]) for action in report["actions"]] == [
        ("append_error", "turn-1", None),
        ("append_tool_result", "turn-2", "call-2"),
        ("append_tool_result", "turn-2", "call-3"),
        ("append_error", "turn-2", None),
        ("append_session_stopped", "", None),
        ("fix_metadata", "", None),
    ]
    assert all(
        list(action) == ["code", "turn_id", "event_id", "tool_call_id", "tool_name", "persisted"]
        and action["persisted"]
        for action in report["actions"]
    )
    assert agh("session", "events", directory.name).stdout.startswith(before)
    added = events(agh, directory, "--after", 7)
    assert [(row["sequence"], row["turn_id"], row["type"]) for row in added] == [
        (8, "turn-1", "error"),
        (9, "turn-2", "tool_result"),
        (10, "turn-2", "tool_result"),
        (11, "turn-2", "error"),
        (12, "", "session_stopped"),
    ]
    for result in added[1:3]:
        assert result["content"]["tool_error"] is True
        assert result["content"]["outcome"] == "unknown"
    assert json.loads((directory / "meta.json").read_bytes())["stop_reason"] == "agent_crashed"


def test_an_action_names_the_event_that_it_made(agh: Agh, home: Home) -> None:
    directory = crashed(home)
    made = [
        action["event_id"]
        for action in repair(agh, directory.name)["actions"]
        if action["code"].startswith("append")
    ]
    assert made == [event["id"] for event in events(agh, directory, "--after", 7)]


def test_twice_is_once(agh: Agh, home: Home) -> None:
    directory = crashed(home)
    repair(agh, directory.name)
    before = tree(home.path)
    again = repair(agh, directory.name)
    assert again == {"session_id": directory.name, "issues": [], "actions": [], "persisted": False}
    assert repair(agh, directory.name, "--force")["persisted"] is False
    assert tree(home.path) == before


def test_a_dry_run_changes_nothing(agh: Agh, home: Home) -> None:
    directory = crashed(home)
    before = tree(home.path)
    report = repair(agh, directory.name, "--dry-run")
    assert report["persisted"] is False
    assert len(report["actions"]) == 6
    assert not any(action["persisted"] for action in report["actions"])
    human = agh("session", "repair", directory.name, "--dry-run").stdout
    assert human.startswith(f"{directory.name}  would repair: ")
    agh("session", "repair", "--all", "--dry-run")
    assert tree(home.path) == before


def test_waiting_requests_and_prompts_on_their_way_are_settled(agh: Agh, home: Home) -> None:
    directory = home.session([user("x")], **CRASHED)
    with take_lock(directory), sqlite3.connect(directory / "events.db") as log:
        log.execute(
            "INSERT INTO permissions (request_id, turn_id, status, action, request, created_at) "
            "VALUES ('req-1', 'turn-1', 'pending', 'write', '{}', '')"
        )
        log.executemany(
            "INSERT INTO inputs (generation, mode, status, prompt, turn_id, created_at, updated_at) "
            "VALUES (0, 'queue', ?, 'p', ?, '', '')",
            [("dispatching", "turn-1"), ("queued", "turn-2")],
        )
    log.close()
    codes = [action["code"] for action in repair(agh, directory.name)["actions"]]
    *appended, last = codes
    assert appended == ["expire_permission", "append_error", "interrupt_input", "append_session_stopped"]
    assert last == "fix_metadata"
    log = sqlite3.connect(directory / "events.db")
    assert log.execute("SELECT status, decision FROM permissions").fetchall() == [("expired", "expired")]
    assert log.execute("SELECT status FROM inputs ORDER BY id").fetchall() == [("interrupted",), ("queued",)]
    log.close()
    types = [event["type"] for event in events(agh, directory)]
    assert types == ["user_message", "permission", "error", "transcript_marker.created", "session_stopped"]


@pytest.mark.parametrize(
    ("fields", "closed"),
    [
        ({"stop_reason": "completed"}, False),
        ({"stop_reason": "idle"}, False),
        ({"stop_reason": "agent_crashed"}, True),
        ({"stop_reason": "error"}, True),
    ],
)
def test_sessions_that_stopped_cleanly_need_force(
    agh: Agh, home: Home, fields: dict[str, str], closed: bool
) -> None:
    directory = home.session([user("x")], **fields)
    assert repair(agh, directory.name)["persisted"] is closed
    assert repair(agh, directory.name, "--force")["persisted"] is not closed
    assert [event["type"] for event in events(agh, directory)] == ["user_message", "error"]
    assert json.loads((directory / "meta.json").read_bytes())["stop_reason"] == fields["stop_reason"]


def test_a_live_session_is_left_alone(agh: Agh, home: Home) -> None:
    directory = crashed(home)
    with take_lock(directory):
        for option in ((), ("--force",), ("--dry-run",)):
            result = agh("session", "repair", directory.name, *option, "-o", "json", code=None)
            error_of(result, "session_live", 6)
        before = tree(home.path)
        line = agh("session", "repair", "--all", "--force").stdout
        assert line == f"{directory.name}  skipped: live\n"
        assert tree(home.path) == before


def test_a_killed_writer_leaves_a_log_that_can_be_repaired(agh: Agh, home: Home) -> None:
    directory = home.session([user("x")], **CRASHED)
    with LogWriter(directory) as log:
        log.append("committed")
        assert agh("session", "repair", "--all").stdout == f"{directory.name}  skipped: live\n"
        log.kill()
    assert (directory / "events.db-wal").exists()
    assert agh("session", "repair", "--all").stdout.startswith(f"{directory.name}  repaired: ")
    types = ["user_message", "agent_message", "error", "session_stopped"]
    assert [event["type"] for event in events(agh, directory)] == types


def test_all_of_them_one_line_each(agh: Agh, home: Home) -> None:
    first = crashed(home, id="sess-aaaaaaaaaa")
    home.session(conversation(), id="sess-bbbbbbbbbb")
    live = home.session([user("x")], id="sess-cccccccccc", **CRASHED)
    home.session([user("x")], id="sess-dddddddddd", **CRASHED)
    with take_lock(live):
        lines = agh("session", "repair", "--all").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["sess-aaaaaaaaaa", "repaired:"],
        ["sess-bbbbbbbbbb", "ok"],
        ["sess-cccccccccc", "skipped:"],
        ["sess-dddddddddd", "repaired:"],
    ]
    assert len(events(agh, first)) == 12
    document = repair(agh, "--all")
    assert [report["session_id"] for report in document["repairs"]] == [line.split()[0] for line in lines]
    as_lines = agh("session", "repair", "--all", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["session_id"] for line in as_lines] == [line.split()[0] for line in lines]


def test_one_line_each_whatever_the_agent_called_its_tools(agh: Agh, home: Home) -> None:
    home.session([user("x"), calls("call-1\nsess-fake000000  ok\n")], **CRASHED)
    assert len(agh("session", "repair", "--all").stdout.splitlines()) == 1


def test_a_damaged_session_needs_a_person_and_stops_no_other(agh: Agh, home: Home) -> None:
    home.session([user("x")], id="sess-first00000", **CRASHED)
    missing = home.session([user("x")], id="sess-missing000", **CRASHED)
    (missing / "events.db").unlink()
    half = home.session([user("x")], id="sess-nometa0000", **CRASHED)
    (half / "meta.json").write_text("{")
    home.session([user("x")], id="sess-zlast00000", **CRASHED)
    result = agh("session", "repair", "--all", "-o", "json", code=8)
    by_id = {report["session_id"]: report for report in json.loads(result.stdout)["repairs"]}
    assert by_id["sess-first00000"]["persisted"] is by_id["sess-zlast00000"]["persisted"] is True
    assert by_id["sess-missing000"]["error"]["code"] == "events_missing"
    assert by_id["sess-nometa0000"]["error"]["code"] == "meta_invalid"
    human = agh("session", "repair", "--all", code=8).stdout
    assert "sess-missing000  agh cannot repair it: session sess-missing000: events.db is missing\n" in human
    error_of(agh("session", "repair", "missing", "-o", "json", code=None), "events_missing", 8)


def test_two_at_once_do_each_repair_once(agh: Agh, home: Home) -> None:
    directories = [crashed(home) for _ in range(25)]
    command = [AGH, "session", "repair", "--all", "-o", "json"]
    reports = []
    with ExitStack() as running:
        started = [running.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)) for _ in range(3)]
        for process in started:
            running.callback(process.kill)
        for process in started:
            out, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            reports += json.loads(out)["repairs"]
    persisted = [report["session_id"] for report in reports if report["persisted"]]
    assert sorted(persisted) == sorted(directory.name for directory in directories)
    for directory in directories:
        log = sqlite3.connect(f"file:{directory}/events.db?mode=ro", uri=True)
        (ends,) = log.execute("SELECT count(*) FROM events WHERE type = 'error'").fetchone()
        log.close()
        assert ends == 2
    assert all(not report["actions"] for report in repair(agh, "--all")["repairs"])


def test_nothing_to_repair(agh: Agh, home: Home) -> None:
    assert repair(agh, "--all") == {"repairs": []}
    assert agh("session", "repair", "--all").stdout == ""
    assert not home.path.exists()


@pytest.mark.parametrize("args", [[], ["x", "--all"], ["--dry-run"], ["a", "b"]])
def test_wrong_usage(agh: Agh, args: list[str]) -> None:
    message_of(agh("session", "repair", *args, code=2))


def _spoil(home: Home, how: str) -> Path:
    directory = home.session(conversation(), last_sequence=len(conversation()))
    log = directory / "events.db"
    if how == "missing":
        log.unlink()
    elif how == "no bytes":
        log.write_bytes(b"")
    else:
        log.unlink()
        with take_lock(directory) as owner:
            create_log(owner)
    return directory


@pytest.mark.parametrize(
    ("how", "code"),
    [("missing", "events_missing"), ("no bytes", "events_empty"), ("no events", "events_empty")],
)
def test_a_log_that_is_lost_needs_a_person(agh: Agh, home: Home, how: str, code: str) -> None:
    directory = _spoil(home, how)
    before = tree(home.path)
    for args in ([], ["--force"], ["--dry-run"]):
        result = agh("session", "repair", directory.name, *args, "-o", "json", code=8)
        error = json.loads(result.stderr)["error"]
        assert (error["code"], result.stdout) == (code, "")
        assert "backup" in error["hint"]
        assert tree(home.path) == before


def test_all_says_on_stderr_what_needs_a_person(agh: Agh, home: Home) -> None:
    directory = _spoil(home, "missing")
    home.session(conversation())
    for args in ([], ["-o", "json"], ["-o", "jsonl"]):
        result = agh("session", "repair", "--all", *args, code=8)
        (line,) = result.stderr.splitlines()
        assert directory.name in line and "events.db is missing" in line
        assert "agh cannot repair it" in line
