"""What in a session waits for its user, by its metadata: how many of each kind. Pure, and imports little.

Promises: nothing but the metadata and the lock is needed, so an inbox never opens the logs of sessions that
do not wait.
"""

from __future__ import annotations

from agh.core.status import badge, effective_meta, phase

TYPE_CHECKING = False  # `agh inbox --count` imports this module: typing would double its time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

KINDS = ("permission", "question", "gate", "login", "limited", "failure")
DISMISSIBLE = ("limited", "failure")  # nobody has to answer them
GATE_DETAIL = "gate: "  # how the stop detail of a session begins that is paused at a gate
LOGIN_FAILURE = "provider_auth_failure"


def count_waiting(meta: Mapping[str, Any], lock_held: bool) -> dict[str, int]:
    """Return how many of each kind wait in a session; kinds of which there are none are left out."""
    activity, view = meta.get("activity") or {}, effective_meta(meta, lock_held)
    counts = {"question": meta.get("orphaned_questions") or 0}
    if meta.get("state") in ("starting", "active"):
        counts["question"] += activity.get("pending_questions") or 0  # orphaned if the keeper has vanished
        counts["permission"] = (activity.get("pending_permissions") or 0) if lock_held else 0
    if badge(view) == "waiting-for-auth":
        counts["login"] = 1
    if phase(view) == "limited" and not meta.get("archived"):
        counts["limited"] = 1
    if view.get("state") == "stopped" and not meta.get("archived"):
        counts |= _count_stopped(view)
    return {kind: counts[kind] for kind in KINDS if counts.get(kind)}


def _count_stopped(view: Mapping[str, Any]) -> dict[str, int]:
    """Return what a stopped session needs from its user: a gate, a login, or a look at its failure."""
    if str(view.get("stop_detail") or "").startswith(GATE_DETAIL) and phase(view) == "paused":
        return {"gate": 1}
    if phase(view) != "failed":
        return {}
    is_login = (view.get("failure") or {}).get("kind") == LOGIN_FAILURE
    return {"login": 1} if is_login else {"failure": 1}


def mark_of(meta: Mapping[str, Any]) -> list[str]:
    """Return what tells this failure or limit from an earlier or later one of the same session.

    `meta` comes from `effective_meta`, so that it stays the same when a vanished keeper's end is written.
    """
    if phase(meta) == "limited":
        return ["limited", str((meta.get("limited") or {}).get("since") or meta.get("resumes_at"))]
    resumed_at = (meta.get("restore") or {}).get("at")
    return [str(resumed_at), str(meta.get("stop_reason")), str(meta.get("stop_detail"))]
