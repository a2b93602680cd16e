from __future__ import annotations

import json
from typing import Any

import pytest

from agh.core.status import KEEPER_VANISHED
from tests.support.build import Home, conversation, take_lock
from tests.support.output import error_of, message_of
from tests.support.program import Agh

RECOVERY = ("is_agent_running", "is_resumable", "needs_resume", "resume_reason")


def status(agh: Agh, reference: object) -> dict[str, Any]:
    document = json.loads(agh("session", "status", reference, "-o", "json").stdout)
    assert list(document) == ["session"]
    session: dict[str, Any] = document["session"]
    return session


@pytest.mark.parametrize("state", ["starting", "active", "stopping"])
def test_lock_held_but_nobody_answers(agh: Agh, home: Home, state: str) -> None:
    directory = home.directory(state=state, stop_reason=None)
    with take_lock(directory):
        view = status(agh, directory.name)
    assert tuple(view[key] for key in RECOVERY) == (False, True, False, "stale_execution")
    assert view["state"] == state


@pytest.mark.parametrize(
    ("token", "reason"), [("acp-1", "agent_not_running"), (None, "agent_not_running_fresh_start")]
)
@pytest.mark.parametrize(
    ("state", "stop_reason", "kind"),
    [
        ("starting", "error", "startup_failure"),
        ("active", "agent_crashed", "process_exit"),
        ("stopping", "agent_crashed", "process_exit"),
    ],
)
def test_keeper_gone_while_live(
    agh: Agh, home: Home, state: str, stop_reason: str, kind: str, token: str | None, reason: str
) -> None:
    directory = home.session(state=state, stop_reason=None, acp_session_id=token)
    seen = status(agh, directory.name)
    assert tuple(seen[key] for key in RECOVERY) == (False, True, True, reason)
    assert (seen["state"], seen["stop_reason"], seen["stop_detail"]) == (
        "stopped",
        stop_reason,
        KEEPER_VANISHED,
    )
    assert seen["failure"]["kind"] == kind
    assert (seen["phase"], seen["badge"]) == ("failed", "failed")
    assert json.loads((directory / "meta.json").read_bytes())["state"] == state

    agh("session", "repair", directory.name)
    stored = status(agh, directory.name)
    assert {key: stored[key] for key in seen if key not in ("updated_at", "last_sequence")} == {
        key: seen[key] for key in seen if key not in ("updated_at", "last_sequence")
    }


@pytest.mark.parametrize(
    ("stop_reason", "phase", "badge"),
    [
        ("completed", "completed", "stopped"),
        ("user_canceled", "cancelled", "stopped"),
        ("idle", "stopped", "stopped"),
        ("shutdown", "stopped", "stopped"),
        ("paused", "paused", "paused"),
        ("max_turns", "paused", "paused"),
        ("budget_exceeded", "paused", "paused"),
        ("timeout", "failed", "failed"),
        ("error", "failed", "failed"),
        ("agent_crashed", "failed", "failed"),
        ("hook_stopped", "failed", "failed"),
    ],
)
def test_ended_sessions(agh: Agh, home: Home, stop_reason: str, phase: str, badge: str) -> None:
    view = status(agh, home.directory(stop_reason=stop_reason, acp_session_id="acp-1").name)
    assert (view["phase"], view["badge"]) == (phase, badge)
    assert tuple(view[key] for key in RECOVERY) == (False, True, False, phase)


@pytest.mark.parametrize("state", ["stopped", "active"])
def test_archived_is_not_resumable(agh: Agh, home: Home, state: str) -> None:
    view = status(agh, home.directory(archived=True, state=state, acp_session_id="acp-1").name)
    assert tuple(view[key] for key in RECOVERY) == (False, False, False, "archived")


@pytest.mark.parametrize(
    ("activity", "phase", "badge"),
    [
        ({}, "idle", "idle"),
        ({"turn_id": "turn-1"}, "running", "running"),
        ({"turn_id": "turn-1", "pending_permissions": 1}, "waiting_for_permission", "waiting-for-input"),
        ({"turn_id": "turn-1", "health": "hung"}, "running", "hung"),
        ({"health": "unhealthy"}, "idle", "unhealthy"),
        ({"waiting_for_auth": True}, "idle", "waiting-for-auth"),
    ],
)
def test_phase_and_badge_of_a_live_session(
    agh: Agh, home: Home, activity: dict[str, Any], phase: str, badge: str
) -> None:
    directory = home.directory(state="active", stop_reason=None, activity=activity)
    with take_lock(directory):
        view = status(agh, directory.name)
    assert (view["phase"], view["badge"]) == (phase, badge)
    assert view["attachable"] is (badge != "hung")


@pytest.mark.parametrize(
    ("expires", "attachable"), [("2999-01-01T00:00:00.000Z", False), ("2020-01-01T00:00:00.000Z", True)]
)
def test_a_lease_of_another_holder(agh: Agh, home: Home, expires: str, attachable: bool) -> None:
    lease = {"attached_to": "cli:host:tty1", "attached_at": expires, "attach_expires_at": expires}
    directory = home.directory(state="active", stop_reason=None, attach=lease)
    with take_lock(directory):
        view = status(agh, directory.name)
    assert view["attachable"] is attachable
    assert (view["attached_to"], view["attach_expires_at"]) == ("cli:host:tty1", expires)


def test_the_keeper_is_named_while_it_is_there(agh: Agh, home: Home) -> None:
    keeper = {"pid": 4711, "started_at": "2026-04-16T01:00:00.000Z"}
    directory = home.directory(state="active", stop_reason=None, keeper=keeper)
    with take_lock(directory):
        assert status(agh, directory.name)["keeper"] == keeper
    assert status(agh, directory.name)["keeper"] is None


def test_for_people(agh: Agh, home: Home) -> None:
    directory = home.session(conversation(), name="alpha", state="active", stop_reason=None)
    lines = dict(
        line.split(":", 1) for line in agh("session", "status", "alpha", "-o", "human").stdout.splitlines()
    )
    assert lines["session"].strip() == directory.name
    assert lines["status"].strip() == "failed"
    assert lines["detail"].strip() == KEEPER_VANISHED
    assert lines["failure"].strip() == f"process_exit: {KEEPER_VANISHED}"
    assert lines["next"].strip() == f"agh session resume {directory.name}"


def test_as_one_line(agh: Agh, home: Home) -> None:
    directory = home.session()
    result = agh("session", "status", directory.name, "-o", "jsonl")
    assert json.loads(result.stdout) == status(agh, directory.name)


def test_a_value_cannot_pose_as_another_line(agh: Agh, home: Home) -> None:
    directory = home.session(name="x\nstatus:       idle")
    lines = agh("session", "status", directory.name).stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("status:")] == ["stopped"]


@pytest.mark.parametrize("failure", [{}, "it broke", ["x"], pytest.param({"kind": "timeout"})], ids=str)
def test_a_failure_of_the_wrong_shape(agh: Agh, home: Home, failure: Any) -> None:
    directory = home.session(stop_reason="error", failure=failure)
    result = agh("session", "status", directory.name, code=None)
    assert result.returncode in (0, 8), result.stderr


def test_wrong_usage(agh: Agh, home: Home) -> None:
    assert "needs a session" in message_of(agh("session", "status", code=2))
    error_of(agh("session", "status", "a", "b", "-o", "json", code=None), "usage", 2)
    error_of(agh("session", "status", "nothing", "-o", "json", code=None), "session_not_found", 4)
