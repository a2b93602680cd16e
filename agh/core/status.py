"""What a session is doing, derived from its metadata and its lock. Pure: reading never writes.

If the metadata says a session is live but its lock is free, it has lost its keeper: it is shown as stopped
immediately, with the same text that the next writer will store.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `agh inbox --count` imports this module: typing would double its time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

LIVE_STATES = ("starting", "active", "stopping")
STATES = (*LIVE_STATES, "stopped")
BADGES = (
    *("running", "idle", "waiting-for-input", "waiting-for-auth", "unhealthy", "hung"),
    *("not-responding", "limited", "paused", "stopped", "failed", "unknown"),
)
KEEPER_VANISHED = "keeper ended without closing the session"
MIRROR_CUT = "only the connection ended; the session may still be running on the other machine"
NOT_RESPONDING = {"badge": "not-responding", "attachable": False}  # of a view whose keeper is silent
PAUSE_REASONS = ("paused", "max_turns", "budget_exceeded", "max_bytes", "disk_low")

_PHASE_OF_STOP = {
    "completed": "completed",
    "user_canceled": "cancelled",
    "idle": "stopped",
    "shutdown": "stopped",
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
    if meta.get("mirror"):
        ended = {"state": "stopped", "stop_reason": "shutdown", "stop_detail": MIRROR_CUT, "failure": None}
        return {**meta, **ended, "keeper": None, "activity": None, "attach": None}
    noted = meta.get("failure") if state != "starting" else None  # by a keeper that could not write its log
    return {
        **meta,
        "state": "stopped",
        "stop_reason": "error" if starting else "agent_crashed",
        "stop_detail": KEEPER_VANISHED,
        "failure": noted
        or {
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
    if state == "active" and activity.get("turn_id"):
        return "running"
    if state == "active":
        return "limited" if meta.get("resumes_at") else "idle"
    if meta.get("stop_detail") == "max_time":
        return "paused"
    phase = _PHASE_OF_STOP.get(str(meta.get("stop_reason")), "failed")
    if meta.get("resumes_at") and (phase != "failed" or meta.get("stop_detail") == KEEPER_VANISHED):
        return "paused" if phase == "paused" else "limited"
    return phase


def badge(meta: Mapping[str, Any]) -> str:
    """Return the first word that applies, from the most to the least alarming."""
    activity = meta.get("activity") or {}
    current_phase = phase(meta)
    if meta.get("state") == "stopped":
        return current_phase if current_phase in ("failed", "paused", "limited") else "stopped"
    if meta.get("state") not in LIVE_STATES:
        return "unknown"
    if activity.get("health") in ("hung", "unhealthy"):
        return str(activity["health"])
    if activity.get("waiting_for_auth"):
        return "waiting-for-auth"
    if current_phase in ("waiting_for_permission", "waiting_for_answer"):
        return "waiting-for-input"
    return current_phase if current_phase in ("idle", "limited") else "running"


def is_attachable(meta: Mapping[str, Any], now: str, holder: str | None = None) -> bool:
    """Tell whether `holder` may attach at the time `now`: live, healthy, and not leased to someone else."""
    return (
        meta.get("state") == "active"
        and badge(meta) not in ("hung", "failed", "stopped", "unknown")
        and not meta.get("failure")
        and not is_leased(meta.get("attach"), now, holder)
    )


def is_leased(lease: Mapping[str, Any] | None, now: str, holder: str | None) -> bool:
    """Tell whether a lease binds `holder` at the time `now`: it is valid, and another's."""
    if not lease or lease.get("attached_to") == holder:
        return False
    expires_at = lease.get("attach_expires_at")  # None: it ends with its holder's connection
    return expires_at is None or str(expires_at) > now


def describe_holder(lease: Mapping[str, Any], now: datetime) -> str:
    """Say who holds a session and for how long, as in `another terminal (pts/2, 14 min left)`.

    A label of agh's own names a terminal, or the process group of a script.
    """
    from datetime import datetime

    holder, expires_at = str(lease.get("attached_to")), lease.get("attach_expires_at")
    details = []
    if holder.startswith("cli:"):
        place = holder.rpartition(":")[2]
        details.append(place.removeprefix("/dev/"))
        holder = "another terminal" if place.startswith("/dev/") else "another script"
    if expires_at:
        seconds = max(0.0, (datetime.fromisoformat(str(expires_at)) - now).total_seconds())
        details.append(f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left")
    return holder + (f" ({', '.join(details)})" if details else "")


def workspace_id(meta: Mapping[str, Any]) -> str | None:
    """Return the id of a session's workspace; one that was never stored follows from the path."""
    if meta.get("workspace_id"):
        return str(meta["workspace_id"])
    path = (meta.get("worktree") or {}).get("origin") or meta.get("workspace_path")
    if not path:
        return None
    return derive_workspace_id(path)


def derive_workspace_id(path: str) -> str:
    """Return the id of a directory that nobody has given one: it follows from the path (FNV-1a, 64 bits)."""
    number = 0xCBF29CE484222325
    for byte in path.encode(errors="surrogateescape"):
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    digits = ""
    while len(digits) < 13:
        number, digit = divmod(number, 36)
        digits += "0123456789abcdefghijklmnopqrstuvwxyz"[digit]
    return f"ws-{digits}"


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
