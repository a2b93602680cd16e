"""Making a session live again, and holding it."""

from __future__ import annotations

from typing import Any, NamedTuple

from agh.core.status import LIVE_STATES
from agh.errors import SessionLive, SessionNotAttachable
from agh.home import Session
from agh.keeper import client
from agh.sessions.start import ensure_live
from agh.store import lock as locks
from agh.store import sessions, workspaces
from agh.store.views import list_views, session_view


class Resumed(NamedTuple):
    """The lease, if one was taken; and the keeper's hello, which says whether it had to be started."""

    attach: dict[str, Any] | None
    hello: dict[str, Any]

    @property
    def restore(self) -> dict[str, Any] | None:
        """How the conversation was restored; None for a session that was live."""
        names = ("strategy", "reason", "context_lost", "meant")
        return {name: self.hello[name] for name in names if self.hello.get(name) is not None} or None


def resume(session: Session, attach_only: bool, lease: dict[str, Any] | None, **request: Any) -> Resumed:
    """Make the session live and take the lease; without one it is left to whoever attaches to it.

    What is refused on a live session is refused before anything about it is changed.
    """
    session_id = session.id
    if attach_only and not locks.is_held(session):
        raise SessionNotAttachable(session_id, "it is stopped")
    hello = ensure_live(session, **request)
    if not hello["started"] and request.get("agent") not in (None, session_view(session).get("agent_name")):
        raise SessionLive(session_id, hint=f"agh session stop {session_id}, then resume it with --agent")
    attached = client.call(session, "attach", **lease) if lease else {"attach": None}
    if not hello["started"] and request.get("limits"):
        client.call(session, "update", limits=request["limits"])
    return Resumed(attached["attach"], hello)


def newest(workspace: str | None) -> Session | None:
    """Return the session that was active last, of those that are not archived or damaged."""
    path = workspaces.find(workspace).path if workspace else None
    views = list_views(
        lambda view: (
            (view["state"] in (*LIVE_STATES, "stopped") and not view.get("archived"))
            and (path is None or path in sessions.workspaces(view))
        )
    )
    if workspace and not views:
        workspaces.find_existing(workspace)
    return sessions.resolve(views[0]["id"]) if views else None
