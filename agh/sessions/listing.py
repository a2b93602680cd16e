"""Choosing sessions to list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agh.core.events import timestamp
from agh.core.status import LIVE_STATES
from agh.store import sessions, workspaces
from agh.store.views import View, list_views

RECENT = timedelta(days=7)


def select(
    everything: bool,
    resumable: bool,
    workspace: str | None,
    state: str | None,
    badge: str | None,
    agent: str | None,
) -> list[View]:
    """Return the sessions that fit, newest activity first; old and archived ones only with `everything`."""
    since = timestamp(datetime.now(UTC) - RECENT)
    place = workspaces.find(workspace) if workspace else None

    def keep(view: View) -> bool:
        recent = view["state"] in LIVE_STATES or str(view.get("updated_at") or "~") >= since
        return (
            (everything or (recent and not view.get("archived")))
            and (not resumable or (view["state"] != "unknown" and not view.get("archived")))
            and (place is None or is_in(view, place, workspace))
            and (not state or view["state"] == state)
            and (not badge or view["badge"] == badge)
            and (not agent or view.get("agent_name") == agent)
        )

    found = list_views(keep)
    if workspace and not found:
        workspaces.existing(workspace)
    return found


def is_in(view: View, place: workspaces.Workspace, reference: str | None) -> bool:
    """Tell whether the session is of that workspace: by its path, or by an id that it was given."""
    return place.path in sessions.workspaces(view) or view.get("workspace_id") == (place.id or reference)
