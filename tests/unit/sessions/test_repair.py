"""Repair on disk: only appends, all or nothing, twice is once, and never of a live session."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.core.events import Row, draft
from agh.core.history import turns
from agh.core.repair import plan
from agh.errors import AghError, EventsMissing, MetaInvalid, SessionBusy, SessionLive
from agh.home import Session
from agh.sessions import repair as recovering
from agh.sessions.repair import repair, repair_locked
from agh.store import lock, meta, writer
from agh.store.reader import Reader
from agh.store.writer import Writer
from tests.support.build import (
    AT,
    Home,
    calls,
    child,
    conversation,
    finishes,
    returns,
    rows,
    says,
    take_lock,
    user,
)
from tests.support.files import tree

pytestmark = pytest.mark.timeout(60)

REPAIRS = """
import json, sys
from agh.errors import AghError
from agh.home import Session
from agh.sessions.repair import repair
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(json.dumps(repair(Session.at(line.rstrip()))["persisted"]), flush=True)
    except AghError as error:
        print(json.dumps(error.code), flush=True)
"""
# A keeper in the middle of a turn that is gone without a word.
DIES = """
import os, sys
from pathlib import Path
from tests.support.build import Writer, calls, take_lock, user
log = Writer(take_lock(Path(sys.argv[1])), "general")
log.append([user("a"), calls("c1")])
os._exit(0)
"""


def interrupted() -> list[Any]:
    return [
        user("a", agent_session="acp-1"),
        calls("c1", "Bash", title="ls"),
        calls("c2", "Read"),
        returns("c2"),
        user("b", turn="turn-2"),
        finishes("turn-2"),
        user("c", turn="turn-3"),
        says("half an ans", turn="turn-3"),
    ]


def _crashed(home: Home, drafts: list[Any] | None = None, **fields: Any) -> Path:
    fields = {
        "state": "active",
        "stop_reason": None,
        "keeper": {"pid": 1},
        "acp_session_id": "acp-1",
        **fields,
    }
    return home.session(interrupted() if drafts is None else drafts, **fields)


def _read(directory: Path) -> list[Row]:
    with Reader(Session.at(directory)) as reader:
        return list(reader.rows())


def _ask(directory: Path, sql: str) -> list[Any]:
    with Reader(Session.at(directory)) as reader:
        return reader.fetch(sql)


def _execute(directory: Path, *statements: str) -> None:
    with take_lock(directory) as owner, Writer(owner, "general") as log, log.transaction() as db:
        for statement in statements:
            db.execute(statement)


def _codes(found: list[dict[str, Any]]) -> list[str]:
    return [item["code"] for item in found]


def test_open_turns_are_closed_and_metadata_is_put_right(home: Home) -> None:
    directory = _crashed(home)
    before = _read(directory)
    report = repair(Session.at(directory))
    after = _read(directory)
    assert after[: len(before)] == before
    assert [(row.type, row.turn_id, row.parsed().get("tool_call_id")) for row in after[len(before) :]] == [
        ("tool_result", "turn-1", "c1"),
        ("error", "turn-1", None),
        ("error", "turn-3", None),
        ("session_stopped", "", None),
    ]
    end = after[-1].parsed()
    assert (end["stop_reason"], end["failure"]["kind"]) == ("agent_crashed", "process_exit")
    result = after[len(before)].parsed()
    assert (result["tool_error"], result["outcome"], result["tool_name"]) == (True, "unknown", "Bash")
    assert all(turn.ended_at for turn in turns(after))
    assert list(report) == ["session_id", "issues", "actions", "persisted"]
    assert report["session_id"] == directory.name and report["persisted"] is True
    assert _codes(report["issues"]) == ["open_turn", "dangling_tool_call", "open_turn", "stale_metadata"]
    assert _codes(report["actions"]) == [
        "append_tool_result",
        "append_error",
        "append_error",
        "append_session_stopped",
        "fix_metadata",
    ]
    assert report["actions"][3]["event_id"] == after[-1].id
    assert all(action["persisted"] for action in report["actions"])
    json.dumps(report)
    record = meta.read(Session.at(directory))
    assert (record["state"], record["stop_reason"]) == ("stopped", "agent_crashed")
    assert record["stop_detail"] == "keeper ended without closing the session"
    assert record["last_sequence"] == len(after) and record["keeper"] is None
    assert record["acp_session_id"] == "acp-1", "the way back is kept"
    assert record["updated_at"] > AT
    assert not lock.is_held(Session.at(directory))


def test_twice_is_once(home: Home) -> None:
    directory = _crashed(home)
    repair(Session.at(directory))
    before = tree(directory)
    for force in (False, True):
        report = repair(Session.at(directory), force=force)
        assert (report["issues"], report["actions"], report["persisted"]) == ([], [], False)
        assert repair(Session.at(directory), dry_run=True, force=force)["actions"] == []
    assert tree(directory) == before


def test_a_dry_run_says_the_same_and_changes_nothing(home: Home) -> None:
    directory = _crashed(home)
    before = tree(directory)
    planned = repair(Session.at(directory), dry_run=True)
    assert tree(directory) == before
    assert planned["persisted"] is False and not any(action["persisted"] for action in planned["actions"])
    report = repair(Session.at(directory))
    assert report["issues"] == planned["issues"]
    assert _codes(report["actions"]) == _codes(planned["actions"])


def test_a_starting_session_has_failed_to_start(home: Home) -> None:
    directory = _crashed(home, [], state="starting")
    assert _codes(repair(Session.at(directory))["actions"]) == ["append_session_stopped", "fix_metadata"]
    record = meta.read(Session.at(directory))
    assert (record["stop_reason"], (record["failure"] or {})["kind"]) == ("error", "startup_failure")


@pytest.mark.parametrize("reason", ["completed", "user_canceled", "paused", "timeout"])
def test_a_session_that_stopped_cleanly_is_looked_at_by_force_only(home: Home, reason: str) -> None:
    directory = _crashed(home, state="stopped", stop_reason=reason)
    before = tree(directory)
    assert repair(Session.at(directory))["issues"] == []
    assert tree(directory) == before
    report = repair(Session.at(directory), force=True)
    assert _codes(report["actions"]) == ["append_tool_result", "append_error", "append_error"]
    record = meta.read(Session.at(directory))
    assert (record["state"], record["stop_reason"]) == ("stopped", reason), "how it ended stays as it was"


@pytest.mark.parametrize("reason", ["agent_crashed", "error"])
def test_a_session_that_ended_in_a_crash_is_looked_at(home: Home, reason: str) -> None:
    directory = _crashed(home, state="stopped", stop_reason=reason)
    assert repair(Session.at(directory))["persisted"] is True


def test_a_call_that_an_ended_turn_left_open_is_closed(home: Home) -> None:
    drafts = [user("a"), calls("c1", "Bash"), calls("c2"), returns("c2"), finishes()]
    directory = home.session(drafts, state="stopped", stop_reason="agent_crashed")
    planned = repair(Session.at(directory), dry_run=True)
    report = repair(Session.at(directory))
    assert _codes(planned["actions"]) == _codes(report["actions"]) == ["append_tool_result"]
    content = _read(directory)[-1].parsed()
    assert (content["tool_call_id"], content["outcome"], content["turn_id"]) == ("c1", "unknown", "turn-1")
    assert repair(Session.at(directory), force=True)["actions"] == []


def test_the_end_is_written_once(home: Home) -> None:
    """A keeper that was killed between its last event and its metadata has said how the session ended."""
    directory = _crashed(home, [*conversation(), draft("session_stopped", stop_reason="completed")])
    assert _codes(repair(Session.at(directory))["actions"]) == ["fix_metadata"]
    assert [row.type for row in _read(directory)].count("session_stopped") == 1


def test_a_session_in_order_is_left_as_it_is(home: Home) -> None:
    directory = home.session(conversation(), state="stopped", stop_reason="agent_crashed")
    before = tree(directory)
    assert repair(Session.at(directory)) == {
        "session_id": directory.name,
        "issues": [],
        "actions": [],
        "persisted": False,
    }
    assert tree(directory) == before


def test_a_live_session_is_refused_and_left_alone(home: Home) -> None:
    directory = _crashed(home)
    before = tree(directory)
    with take_lock(directory):
        for options in ({}, {"dry_run": True}, {"force": True}):
            with pytest.raises(SessionLive):
                repair(Session.at(directory), **options)
    assert tree(directory) == before


def test_a_session_that_comes_alive_meanwhile_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = _crashed(home)
    monkeypatch.setattr(recovering.locks, "is_held", lambda path: False)
    with take_lock(directory), pytest.raises(SessionBusy):
        repair(Session.at(directory))
    assert len(_read(directory)) == len(interrupted())


def test_a_keeper_repairs_with_the_lock_it_holds(home: Home) -> None:
    directory = _crashed(home)
    with take_lock(directory) as owner:
        report = repair_locked(owner)
        assert report["persisted"] and owner.fd >= 0 and lock.is_held(Session.at(directory))
        assert repair_locked(owner)["persisted"] is False


def test_orphaned_permissions_expire(home: Home) -> None:
    directory = _crashed(home)
    insert = (
        "INSERT INTO permissions "
        "(request_id, turn_id, tool_call_id, status, action, request, created_at) VALUES "
    )
    _execute(
        directory,
        insert + "('req-2', 'turn-1', 'c1', 'pending', 'execute', '{}', '2')",
        insert + "('req-1', 'turn-2', NULL, 'pending', 'write', '{}', '1')",
        insert + "('req-0', 'turn-1', 'c2', 'decided', 'read', '{}', '0')",
    )
    before = len(_read(directory))
    planned = repair(Session.at(directory), dry_run=True)
    assert _codes(planned["actions"])[:2] == ["expire_permission", "expire_permission"]
    report = repair(Session.at(directory))
    assert _codes(report["issues"])[:2] == ["orphaned_permission", "orphaned_permission"]
    first, second = _read(directory)[before : before + 2]
    assert (first.type, first.turn_id, first.parsed()["request_id"]) == ("permission", "turn-2", "req-1")
    assert (second.type, second.turn_id, second.parsed()["request_id"]) == ("permission", "turn-1", "req-2")
    assert second.parsed()["decision"] == "expired" and second.parsed()["tool_call_id"] == "c1"
    stored = _ask(directory, "SELECT request_id, status, decision FROM permissions ORDER BY request_id")
    assert stored == [
        ("req-0", "decided", None),
        ("req-1", "expired", "expired"),
        ("req-2", "expired", "expired"),
    ]
    assert repair(Session.at(directory), force=True)["actions"] == []


def test_a_prompt_that_was_under_way_is_interrupted_and_queued_ones_stay(home: Home) -> None:
    directory = _crashed(home, [])
    insert = "INSERT INTO inputs (generation, mode, status, prompt, turn_id, created_at, updated_at) VALUES "
    _execute(
        directory,
        *(
            insert + f"(0, 'queue', '{status}', '[]', 'turn-{number}', '{AT}', '{AT}')"
            for number, status in enumerate(["sent", "dispatching", "queued", "failed", "cancelled"])
        ),
    )
    report = repair(Session.at(directory))
    assert _codes(report["issues"]) == ["interrupted_input", "stale_metadata"]
    assert _codes(report["actions"]) == ["interrupt_input", "append_session_stopped", "fix_metadata"]
    assert report["actions"][0]["turn_id"] == "turn-1"
    statuses = [one for (one,) in _ask(directory, "SELECT status FROM inputs ORDER BY id")]
    assert statuses == ["sent", "interrupted", "queued", "failed", "cancelled"]
    note, _ = _read(directory)
    assert (note.type, note.turn_id) == ("transcript_marker.created", "")
    assert (note.parsed()["kind"], note.parsed()["severity"]) == ("prompt_interrupted", "warning")
    assert repair(Session.at(directory), force=True)["actions"] == []


def test_after_a_kill_the_hot_wal_is_repaired(home: Home) -> None:
    directory = _crashed(home, [])
    with child(DIES, directory) as keeper:
        assert keeper.wait(20) == 0
    assert (directory / "events.db-wal").stat().st_size > 0
    assert repair(Session.at(directory))["persisted"] is True
    types = ["user_message", "tool_call", "tool_result", "error", "session_stopped"]
    assert [row.type for row in _read(directory)] == types
    assert sorted(path.name for path in directory.iterdir()) == ["events.db", "lock", "meta.json"]


def test_several_at_once_do_it_once(home: Home) -> None:
    with ExitStack() as stack:
        repairers = [stack.enter_context(child(REPAIRS)) for _ in range(4)]
        for repairer in repairers:
            assert repairer.stdout is not None and repairer.stdout.readline() == "ready\n"
        for _ in range(8):
            directory = _crashed(home)
            for repairer in repairers:
                assert repairer.stdin is not None
                repairer.stdin.write(f"{directory}\n")
                repairer.stdin.flush()
            documents = [json.loads(repairer.stdout.readline()) for repairer in repairers if repairer.stdout]
            assert documents.count(True) == 1, documents
            assert set(map(str, documents)) <= {"True", "False", "session_live", "session_busy"}
            assert len(_read(directory)) == len(interrupted()) + 4
            assert meta.read(Session.at(directory))["state"] == "stopped"


def test_a_repair_that_is_cut_short_is_finished_by_the_next(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _crashed(home)

    def dies(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(writer.Writer, "append", dies)
        repair(Session.at(directory))
    assert len(_read(directory)) == len(interrupted()), "all or nothing"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recovering.meta, "write", dies)
        repair(Session.at(directory))
    assert len(_read(directory)) == len(interrupted()) + 4
    assert meta.read(Session.at(directory))["state"] == "active"
    assert _codes(repair(Session.at(directory))["actions"]) == ["fix_metadata"]
    assert len(_read(directory)) == len(interrupted()) + 4
    assert meta.read(Session.at(directory))["last_sequence"] == len(interrupted()) + 4


def test_one_transaction_or_none(home: Home) -> None:
    """An event that cannot be stored takes the permissions and inputs of the same repair with it."""
    directory = _crashed(home)
    _execute(
        directory,
        "INSERT INTO permissions (request_id, turn_id, status, action, request, created_at) "
        "VALUES ('req-1', 'turn-1', 'pending', 'write', '{}', '')",
        "CREATE TRIGGER no_errors BEFORE INSERT ON events WHEN NEW.type = 'error' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    with pytest.raises(AghError):
        repair(Session.at(directory))
    assert len(_read(directory)) == len(interrupted())
    assert _ask(directory, "SELECT status FROM permissions") == [("pending",)]
    assert meta.read(Session.at(directory))["state"] == "active"
    assert not lock.is_held(Session.at(directory))


def test_damage_is_named_and_left_alone(home: Home) -> None:
    missing = home.directory(state="active")
    with pytest.raises(EventsMissing):
        repair(Session.at(missing))
    assert meta.read(Session.at(missing))["state"] == "active"
    torn = _crashed(home)
    (torn / "meta.json").write_text("{")
    before = tree(torn)
    with pytest.raises(MetaInvalid):
        repair(Session.at(torn))
    assert tree(torn) == before


def test_open_turns_are_found_by_the_index(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = _crashed(home, [*interrupted(), *(says("x", turn="turn-2") for _ in range(500))])
    asked: list[str] = []
    fetch = Reader.fetch
    with monkeypatch.context() as patch:
        patch.setattr(Reader, "fetch", lambda self, sql, *rest: asked.append(sql) or fetch(self, sql, *rest))
        with take_lock(directory) as owner:
            repair_locked(owner)
    (landmarks,) = [sql for sql in asked if "GROUP BY type, turn_id" in sql]
    steps = [step for *_, step in _ask(directory, f"EXPLAIN QUERY PLAN {landmarks}")]
    assert any("events USING" in step and "INDEX events_landmarks" in step for step in steps), steps
    for sql in asked:
        steps = [step for *_, step in _ask(directory, f"EXPLAIN QUERY PLAN {sql}")]
        assert not any(step.endswith("SCAN events") for step in steps), (sql, steps)


# As a keeper writes them: a turn begins with its prompt.
POOL = [
    draft(kind, turn_id=turn, tool_call_id=call)
    for turn in ("turn-1", "turn-2", "turn-3")
    for kind, call in [
        ("agent_message", None),
        ("tool_call", "c1"),
        ("tool_call", "c2"),
        ("tool_result", "c1"),
        ("usage", None),
        ("system", None),
        ("done", None),
        ("error", None),
    ]
] + [draft("session_resumed"), draft("system")]


@given(st.lists(st.sampled_from(POOL), max_size=20))
@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
def test_the_log_is_repaired_as_the_plan_says(home: Home, drafts: list[Any]) -> None:
    begun: set[str] = set()
    log: list[Any] = []
    for one in drafts:
        if one.turn_id and one.turn_id not in begun:
            begun.add(one.turn_id)
            log.append(user("x", turn=one.turn_id))
        log.append(one)
    directory = home.session(log, state="stopped", stop_reason="error")
    expected = plan(rows(log), AT)
    report = repair(Session.at(directory))
    after = _read(directory)
    assert after[: len(log)] == rows(log)
    assert [(row.type, row.turn_id) for row in after[len(log) :]] == [
        (draft.type, draft.turn_id) for draft in expected.drafts
    ]
    assert report["issues"] == expected.issues
    assert repair(Session.at(directory), force=True)["actions"] == []
