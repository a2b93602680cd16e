"""What a session is doing, derived from its metadata and its lock. Pure: reading never writes.

If the metadata says a session is live but its lock is free, it has lost its keeper: it is shown as stopped
immediately, with the same text that the next writer will store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.core.events import derive_workspace_id

LIVE_STATES = ("starting", "active", "stopping")
STATES = (*LIVE_STATES, "stopped")
BADGES = (
    *("running", "idle", "waiting-for-input", "waiting-for-auth", "unhealthy", "hung"),
    *("not-responding", "paused", "stopped", "failed", "unknown"),
)
KEEPER_VANISHED = "keeper ended without closing the session"
NOT_RESPONDING = {"badge": "not-responding", "attachable": False}  # of a view whose keeper is silent
PAUSE_REASONS = ("paused", "max_turns", "budget_exceeded", "max_bytes", "disk_low")

_PHASE_OF_STOP = {
    "completed": "completed",
    "user_canceled": "cancelled",
    "idle": "idle",
    "shutdown": "idle",
    "paused": "paused",
    "max_turns": "paused",
    "budget_exceeded": "paused",
    "max_bytes": "paused",
    "disk_low": "paused",
}


def effective_meta(meta: Mapping[str, Any], lock_held: bool) -> dict[str, Any]:
    """Return the metadata, marked as stopped if its keeper has vanished."""
    state = meta.get("state")
    if lock_held or state not in LIVE_STATES:
        return dict(meta)
    starting = state == "starting"
    return {
        **meta,
        "state": "stopped",
        "stop_reason": "error" if starting else "agent_crashed",
        "stop_detail": KEEPER_VANISHED,
        "failure": {
            "kind": "startup_failure" if starting else "process_exit",
            "summary": KEEPER_VANISHED,
            "crash_bundle_path": None,
        },
        "keeper": None,
        "activity": None,
        "attach": None,
    }


def phase(meta: Mapping[str, Any]) -> str:
    """Return starting, running, what a live session waits for, or how the session ended."""
    state, activity = meta.get("state"), meta.get("activity") or {}
    if state in ("starting", "active"):
        if activity.get("pending_permissions"):
            return "waiting_for_permission"
        if activity.get("pending_questions"):
            return "waiting_for_answer"
    if state == "starting":
        return "starting"
    if state == "stopping":
        return "running"
    if state == "active":
        return "running" if activity.get("turn_id") else "waiting_for_input"
    if meta.get("stop_detail") == "max_time":
        return "paused"
    return _PHASE_OF_STOP.get(str(meta.get("stop_reason")), "failed")


def badge(meta: Mapping[str, Any]) -> str:
    """Return the first word that applies, from the most to the least alarming."""
    activity = meta.get("activity") or {}
    current_phase = phase(meta)
    if meta.get("state") == "stopped":
        return {"failed": "failed", "paused": "paused"}.get(current_phase, "stopped")
    if meta.get("state") not in LIVE_STATES:
        return "unknown"
    if activity.get("health") in ("hung", "unhealthy"):
        return str(activity["health"])
    if activity.get("waiting_for_auth"):
        return "waiting-for-auth"
    if current_phase in ("waiting_for_permission", "waiting_for_answer"):
        return "waiting-for-input"
    return "idle" if current_phase == "waiting_for_input" else "running"


def is_attachable(meta: Mapping[str, Any], now: str, holder: str | None = None) -> bool:
    """Tell whether `holder` may attach at the time `now`: live, healthy, and not leased to someone else."""
    lease = meta.get("attach") or {}
    leased = bool(lease) and lease.get("attached_to") != holder and str(lease.get("attach_expires_at")) > now
    return (
        meta.get("state") == "active"
        and badge(meta) not in ("hung", "failed", "stopped", "unknown")
        and not meta.get("failure")
        and not leased
    )


def workspace_id(meta: Mapping[str, Any]) -> str | None:
    """Return the id of a session's workspace; one that was never stored follows from the path."""
    if meta.get("workspace_id"):
        return str(meta["workspace_id"])
    path = (meta.get("worktree") or {}).get("origin") or meta.get("workspace_path")
    return derive_workspace_id(path) if path else None


def recovery(meta: Mapping[str, Any], lock_held: bool, keeper_answers: bool) -> dict[str, Any]:
    """Tell whether the agent runs, whether the session can and should be resumed, and why.

    `meta` comes from `effective_meta`. `keeper_answers` matters only while the lock is held.
    """
    archived = bool(meta.get("archived"))
    needs_resume = False
    if lock_held:
        reason = "already_running" if keeper_answers else "stale_execution"
    elif archived:
        reason = "archived"
    elif meta.get("stop_detail") == KEEPER_VANISHED:
        needs_resume = True
        reason = "agent_not_running" if meta.get("acp_session_id") else "agent_not_running_fresh_start"
    else:
        reason = phase(meta)
    return {
        "is_agent_running": lock_held and keeper_answers,
        "is_resumable": not archived,
        "needs_resume": needs_resume,
        "resume_reason": reason,
    }


def view(meta: Mapping[str, Any], lock_held: bool, now: str, holder: str | None = None) -> dict[str, Any]:
    """Return a session as it is printed to `holder`: its effective metadata and what follows from it."""
    view = effective_meta(meta, lock_held)
    lease = view.get("attach") or {}
    if view.get("workspace_path"):
        view["workspace_id"] = workspace_id(view)
    view["phase"] = phase(view)
    view["badge"] = badge(view)
    view["attachable"] = view["state"] == "active" and is_attachable(view, now, holder)
    view["attached_to"] = lease.get("attached_to")
    view["attach_expires_at"] = lease.get("attach_expires_at")
    return view
