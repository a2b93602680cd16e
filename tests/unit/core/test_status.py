"""What a session is shown as follows from its metadata and its lock, by tables."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agh.core import status
from tests.support.build import AT

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LATER = "2026-04-16T02:00:00.000Z"

# As in docs/spec.md.
PHASES = {
    "starting",
    "running",
    "idle",
    "waiting_for_permission",
    "stopped",
    "paused",
    "completed",
    "failed",
    "cancelled",
}
BADGES = {
    "running",
    "idle",
    "waiting-for-input",
    "waiting-for-auth",
    "unhealthy",
    "hung",
    "paused",
    "stopped",
    "failed",
    "unknown",
}
STOP_REASONS = [
    "completed",
    "user_canceled",
    "idle",
    "paused",
    "max_turns",
    "budget_exceeded",
    "timeout",
    "error",
    "agent_crashed",
    "hook_stopped",
    "shutdown",
]

leases = st.none() | st.fixed_dictionaries(
    {"attached_to": st.sampled_from(["me", "you"]), "attach_expires_at": st.sampled_from([AT, LATER])}
)
activities = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "turn_id": st.sampled_from(["turn-1", None]),
        "pending_permissions": st.integers(0, 2),
        "health": st.sampled_from(["ok", "hung", "unhealthy"]),
        "waiting_for_auth": st.booleans(),
    },
)
metas: Any = st.fixed_dictionaries(
    {
        "id": st.just("sess-abcdefgh"),
        "state": st.sampled_from(["starting", "active", "stopping", "stopped", "odd"]),
    },
    optional={
        "stop_reason": st.none() | st.sampled_from(STOP_REASONS),
        "stop_detail": st.none() | st.just(status.KEEPER_VANISHED),
        "failure": st.none() | st.just({"kind": "timeout", "summary": "slow"}),
        "acp_session_id": st.none() | st.just("acp-1"),
        "activity": activities,
        "attach": leases,
        "archived": st.booleans(),
        "keeper": st.none() | st.just({"pid": 1}),
    },
)


@given(metas, st.booleans())
@LAW
def test_settling_is_pure_and_twice_is_once(meta: dict[str, Any], held: bool) -> None:
    before = copy.deepcopy(meta)
    once = status.effective_meta(meta, held)
    assert meta == before
    assert status.effective_meta(once, held) == once
    assert once == meta or once["state"] == "stopped"


@given(metas, st.booleans())
@LAW
def test_a_session_that_nobody_holds_is_never_shown_as_live(meta: dict[str, Any], held: bool) -> None:
    view = status.view(meta, held, AT)
    assert view["phase"] in PHASES and view["badge"] in BADGES
    if not held:
        assert view["state"] not in status.LIVE_STATES
        assert not view["attachable"]
        assert view["badge"] in {"failed", "paused", "stopped", "unknown"}


def test_a_held_or_stopped_session_reads_as_it_is_stored() -> None:
    active = {"state": "active", "keeper": {"pid": 1}}
    assert status.effective_meta(active, lock_held=True) == active
    stopped = {"state": "stopped", "stop_reason": "completed"}
    assert status.effective_meta(stopped, lock_held=False) == stopped


@pytest.mark.parametrize(
    ("state", "reason", "kind"),
    [
        ("starting", "error", "startup_failure"),
        ("active", "agent_crashed", "process_exit"),
        ("stopping", "agent_crashed", "process_exit"),
    ],
)
def test_a_vanished_keeper_is_classified(state: str, reason: str, kind: str) -> None:
    shown = status.effective_meta(
        {"state": state, "keeper": {"pid": 1}, "activity": {"turn_id": "t"}, "attach": {"attached_to": "me"}},
        lock_held=False,
    )
    assert shown == {
        "state": "stopped",
        "stop_reason": reason,
        "stop_detail": "keeper ended without closing the session",
        "failure": {
            "kind": kind,
            "summary": "keeper ended without closing the session",
            "crash_bundle_path": None,
        },
        "keeper": None,
        "activity": None,
        "attach": None,
    }


@pytest.mark.parametrize(
    ("meta", "phase", "badge"),
    [
        ({"state": "starting"}, "starting", "running"),
        ({"state": "stopping"}, "running", "running"),
        ({"state": "active"}, "idle", "idle"),
        ({"state": "active", "activity": {"turn_id": "t"}}, "running", "running"),
        (
            {"state": "active", "activity": {"turn_id": "t", "pending_permissions": 1}},
            "waiting_for_permission",
            "waiting-for-input",
        ),
        (
            {"state": "active", "activity": {"waiting_for_auth": True}},
            "idle",
            "waiting-for-auth",
        ),
        (
            {
                "state": "active",
                "activity": {"turn_id": "t", "waiting_for_auth": True, "health": "unhealthy"},
            },
            "running",
            "unhealthy",
        ),
        (
            {"state": "active", "activity": {"health": "hung", "pending_permissions": 1}},
            "waiting_for_permission",
            "hung",
        ),
        ({"state": "stopped", "stop_reason": "completed"}, "completed", "stopped"),
        ({"state": "stopped", "stop_reason": "user_canceled"}, "cancelled", "stopped"),
        ({"state": "stopped", "stop_reason": "idle"}, "stopped", "stopped"),
        ({"state": "stopped", "stop_reason": "shutdown"}, "stopped", "stopped"),
        ({"state": "stopped", "stop_reason": "paused"}, "paused", "paused"),
        ({"state": "stopped", "stop_reason": "max_turns"}, "paused", "paused"),
        ({"state": "stopped", "stop_reason": "budget_exceeded"}, "paused", "paused"),
        ({"state": "stopped", "stop_reason": "timeout"}, "failed", "failed"),
        ({"state": "stopped", "stop_reason": "error"}, "failed", "failed"),
        ({"state": "stopped", "stop_reason": "agent_crashed"}, "failed", "failed"),
        ({"state": "stopped", "stop_reason": "hook_stopped"}, "failed", "failed"),
        ({"state": "nonsense"}, "failed", "unknown"),
        ({}, "failed", "unknown"),
    ],
)
def test_phase_and_badge(meta: dict[str, Any], phase: str, badge: str) -> None:
    assert (status.phase(meta), status.badge(meta)) == (phase, badge)


@pytest.mark.parametrize(
    ("fields", "holder", "expected"),
    [
        ({}, None, True),
        ({"state": "starting"}, None, False),
        ({"state": "stopping"}, None, False),
        ({"state": "stopped", "stop_reason": "completed"}, None, False),
        ({"activity": {"health": "unhealthy"}}, None, True),
        ({"activity": {"health": "hung"}}, None, False),
        ({"failure": {"kind": "timeout"}}, None, False),
        ({"attach": {"attached_to": "you", "attach_expires_at": LATER}}, None, False),
        ({"attach": {"attached_to": "you", "attach_expires_at": LATER}}, "me", False),
        ({"attach": {"attached_to": "me", "attach_expires_at": LATER}}, "me", True),
        ({"attach": {"attached_to": "you", "attach_expires_at": AT}}, "me", True),
        ({"attach": None}, "me", True),
    ],
)
def test_attachable(fields: dict[str, Any], holder: str | None, expected: bool) -> None:
    assert status.is_attachable({"state": "active", **fields}, AT, holder) is expected


VANISHED = {"state": "stopped", "stop_reason": "agent_crashed", "stop_detail": status.KEEPER_VANISHED}


@pytest.mark.parametrize(
    ("meta", "held", "answers", "running", "resumable", "needs", "reason"),
    [
        ({"state": "active"}, True, True, True, True, False, "already_running"),
        ({"state": "starting"}, True, False, False, True, False, "stale_execution"),
        ({"state": "stopping"}, True, False, False, True, False, "stale_execution"),
        ({**VANISHED, "acp_session_id": "acp-1"}, False, False, False, True, True, "agent_not_running"),
        (VANISHED, False, False, False, True, True, "agent_not_running_fresh_start"),
        ({"state": "stopped", "stop_reason": "completed"}, False, False, False, True, False, "completed"),
        ({"state": "stopped", "stop_reason": "timeout"}, False, False, False, True, False, "failed"),
        ({"state": "stopped", "stop_reason": "user_canceled"}, False, False, False, True, False, "cancelled"),
        ({"state": "stopped", "stop_reason": "paused"}, False, False, False, True, False, "paused"),
        ({"state": "stopped", "stop_reason": "idle"}, False, False, False, True, False, "stopped"),
        ({**VANISHED, "archived": True}, False, False, False, False, False, "archived"),
    ],
)
def test_should_it_be_resumed(
    meta: dict[str, Any], held: bool, answers: bool, running: bool, resumable: bool, needs: bool, reason: str
) -> None:
    assert status.recovery(meta, held, answers) == {
        "is_agent_running": running,
        "is_resumable": resumable,
        "needs_resume": needs,
        "resume_reason": reason,
    }


def test_the_answer_is_the_same_before_and_after_the_end_is_persisted() -> None:
    meta = {"state": "active", "acp_session_id": "acp-1"}
    shown = status.effective_meta(meta, lock_held=False)
    stored = status.effective_meta(shown, lock_held=False)
    assert status.recovery(shown, False, False) == status.recovery(stored, False, False)


def test_a_view_is_the_metadata_and_what_follows_from_it() -> None:
    meta = {"state": "active", "name": "n", "attach": {"attached_to": "you", "attach_expires_at": LATER}}
    assert status.view(meta, True, AT) == {
        **meta,
        "phase": "idle",
        "badge": "idle",
        "attachable": False,
        "attached_to": "you",
        "attach_expires_at": LATER,
    }
