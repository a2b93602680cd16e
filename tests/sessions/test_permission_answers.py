"""Permission requests: kept as rows, answered from any process, decided by the mode where it can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session, Share
from tests.support.permissions import requests
from tests.support.wait import wait_until


def pending(session: Session) -> list[dict[str, Any]]:
    permissions: list[dict[str, Any]] = json.loads(session.agh("permissions", "-o", "json").stdout)[
        "permissions"
    ]
    return permissions


def asking(session: Session, text: str = "/ask path=a.txt Edit a.txt") -> str:
    """Begin a turn that asks; the id of the request."""
    session.send(text)
    (row,) = wait_until(lambda: session.fetch("SELECT request_id FROM permissions WHERE status = 'pending'"))
    return str(row[0])


def test_answered_from_another_process(shared_with: Share) -> None:
    session = shared_with()
    for number, (verb, *args, outcome, decision) in enumerate(
        [
            ("approve", "allow_once", "allowed"),
            ("deny", "reject_once", "denied"),
            ("approve", "--always", "allow_always", "allowed"),
            ("deny", "--always", "reject_always", "denied"),
        ]
    ):
        request = asking(
            session, f"/ask path={number}.txt kind={'edit' if number % 2 else 'delete'} Change it"
        )
        (row,) = pending(session)
        assert (row["request_id"], row["status"]) == (request, "pending")
        assert row["resource"] == str(session.live.workspace / f"{number}.txt")
        assert row["title"] == "Change it"
        done = session.agh(verb, *args, "-o", "json")
        receipt = json.loads(done.stdout)["permission"]
        assert (receipt["request_id"], receipt["decision"]) == (request, decision)
        session.wait_idle()
        assert session.text().endswith(f"permission: {outcome}")
        events, decided = session.events("permission")[-2:]
        assert "decision" not in events.content
        assert events.content["raw"]["method"] == "session/request_permission"
        assert decided.content["decision"] == decision
        assert events.content["request_id"] == decided.content["request_id"] == request
        assert events.turn_id == decided.turn_id != ""
    assert pending(session) == []


def test_the_one_who_watches_is_told_what_to_do(shared_with: Share) -> None:
    session = shared_with()
    with session.start_prompt("/ask path=a.txt Edit a.txt") as watcher:
        request = wait_until(lambda: requests(session))[0].request_id
        assert watcher.stdout
        advice = f"{session.id} {request}".encode()
        assert any(advice in line for line in watcher.stdout), "it is printed while the request is open"
        session.agh("approve", request)
        out, _ = watcher.communicate(timeout=20)
    assert watcher.returncode == 0
    assert "permission: allow_once" in out.decode()


def test_no_option_that_was_not_meant_is_chosen(shared_with: Share) -> None:
    session = shared_with()
    asking(session, "/ask-reject-only path=a.txt")
    assert session.error("approve", code=2)["code"] == "permission_not_offered"
    session.agh("deny")
    session.wait_idle()
    assert session.text() == "permission: reject_once"


@pytest.mark.parametrize(
    ("mode", "kind", "outcome"),
    [
        ("approve-all", "edit", "allow_once"),
        ("deny-all", "read", "reject_once"),
        ("approve-reads", "read", "allow_once"),
    ],
)
def test_the_mode_decides(live: Live, mode: str, kind: str, outcome: str) -> None:
    session = live.new(args=("--permissions", mode))
    assert session.tell(f"/ask kind={kind} path=a.txt") == f"permission: {outcome}"
    assert session.fetch("SELECT status, decided_by FROM permissions") == [("decided", "mode")]
    assert session.count("permission") == 2


def test_nothing_to_answer(live: Live) -> None:
    session = live.new()
    assert session.error("approve", code=4)["code"] == "permission_unknown"
    request = asking(session)
    assert session.error("deny", "perm-none", code=4)["code"] == "permission_unknown"
    session.agh("deny", request)
    assert session.error("approve", request, code=4)["code"] == "permission_unknown"
    session.stop()
    assert session.error("approve", code=7)["code"] == "keeper_gone"


def test_no_answer_in_time_is_a_rejection(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '0.5s'")
    session = live.new()
    assert session.tell("/ask path=a.txt") == "permission: reject_once"
    assert session.events("permission")[-1].content["decided_by"] == "timeout"


def test_a_cancel_answers_it_first(shared_with: Share) -> None:
    session = shared_with()
    asking(session, "/ask path=a.txt\n/sleep 30")
    session.agh("cancel")
    session.wait_idle()
    assert session.events("permission")[-1].content["decision"] == "cancelled"
    assert session.events("done")[0].content["stop_reason"] == "cancelled"


def test_a_dead_keeper_takes_its_questions_with_it(live: Live) -> None:
    session = live.new()
    asking(session)
    session.kill_keeper()
    session.agh("resume")
    assert pending(session) == []
    assert session.fetch("SELECT status FROM permissions") == [("expired",)]
    assert session.events("permission")[-1].content["decision"] == "expired"
    session.check_log()


def test_files_and_terminals_obey_the_mode_and_the_workspace(live: Live, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    (live.workspace / "link").symlink_to(tmp_path)
    (live.workspace / "in.txt").write_text("inside")
    session = live.new(args=("--permissions", "approve-all"))
    reply = session.tell(
        f"/read in.txt\n/write sub/out.txt a\\nb\n/run echo $PWD\n/read {tmp_path}/secret\n"
        "/read link/secret\n/write link/made x\n/write link/none/made x\n/run exit 3"
    )
    assert "read in.txt: inside" in reply
    assert (live.workspace / "sub" / "out.txt").read_text() == "a\nb"
    assert f"exit 0: {live.workspace}" in reply
    assert reply.count("outside the workspace") == 4
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "none").exists()
    assert "exit 3" in reply


def test_what_a_terminal_started_ends_with_the_session(live: Live) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    session.send("/run setsid sleep 300 & sleep 300")
    wait_until(lambda: [process for process in live.processes() if process.argv == ["sleep", "300"]])
    session.stop()
    assert [process for process in live.processes() if "sleep" in process.argv] == []


def test_no_ask_refuses_at_once_what_the_mode_leaves_open(live: Live) -> None:
    session = live.new()
    steps = "/ask path=a.txt\n/ask kind=read path=a.txt\n/write a.txt x\n/run touch b.txt"
    lines = session.say(steps, "--no-ask").splitlines()
    assert lines[:2] == ["permission: reject_once", "permission: allow_once"]
    assert "not allowed" in lines[2] and "not allowed" in lines[3]
    decided = session.fetch("SELECT decision, decided_by FROM permissions ORDER BY rowid")
    assert decided == [("denied", "no-ask"), ("allowed", "mode"), ("denied", "no-ask"), ("denied", "no-ask")]
    assert list(live.workspace.iterdir()) == []


def test_with_nothing_to_answer_the_session_is_named(shared_with: Share) -> None:
    session = shared_with()
    result = session.agh("approve", code=4)
    assert result.stderr.startswith(f"agh: there is no open permission request in session {session.id}\n")
