"""Making a session live again, and holding it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.status import LIVE_STATES, describe_holder, is_attachable, is_leased
from agh.errors import (
    AghError,
    KeeperNotResponding,
    SessionArchived,
    SessionLive,
    SessionNotAttachable,
    WorkspaceGone,
)
from agh.home import Session, session_of
from agh.keeper import client
from agh.sessions.start import check, check_agent, ensure_live, keeper_module
from agh.store import lock as locks
from agh.store import sessions, workspaces
from agh.store.views import View, list_views, session_view

Obstacle = dict[str, Any]  # an error, as it is printed


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
        hint = f"leave out --attach-only to start it: agh session resume {session_id}"
        raise SessionNotAttachable(session_id, "is stopped, so you cannot attach to it", hint=hint)
    hello = ensure_live(session, **request)
    if not hello["started"] and request.get("agent") not in (None, session_view(session).get("agent_name")):
        raise SessionLive(session_id, hint=f"agh session stop {session_id}, then resume it with --agent")
    attached = client.call(session, "attach", **lease) if lease else {"attach": None}
    if not hello["started"] and request.get("limits"):
        client.call(session, "update", limits=request["limits"])
    return Resumed(attached["attach"], hello)


def newest(
    workspace: str | None, holder: str, *, steal: bool = False, on_skip: Callable[[View, Obstacle], None]
) -> Session | None:
    """Return the session that was active last, of those that `holder` can resume.

    `on_skip` gets the newer ones that cannot be resumed, each with what keeps it from that.
    """
    from agh.sessions.listing import mark_stuck

    path = workspaces.find(workspace).path if workspace else None
    views = list_views(
        lambda view: (
            not view.get("archived")
            and (path is None or (view["state"] != "unknown" and path in sessions.workspaces(view)))
        )
    )
    if workspace and not views:
        workspaces.find_existing(workspace)
    check = Eligibility(holder, steal=steal)
    for view in views:
        mark_stuck([view])
        obstacle = check(view)
        if obstacle is None:
            return sessions.resolve(view["id"])
        on_skip(view, obstacle)
    return None


class Eligibility:
    """Check what keeps `holder` from resuming a session: None, or the error as a mapping.

    Its lock, its lease, its metadata, log and workspace are checked for each session, its agent once for all
    sessions that have the same. Nothing is started.
    """

    def __init__(self, holder: str | None, *, steal: bool = False) -> None:
        self._holder, self._steal, self._now = holder, steal, timestamp()
        self._agents: dict[tuple[Any, ...], AghError | None] = {}

    def __call__(self, view: View) -> Obstacle | None:
        """Return what keeps the session from being resumed; its view must say if its keeper is stuck."""
        if view["state"] == "unknown":
            obstacle: Obstacle = view["error"]
            return obstacle
        error = self._check(view)
        return error.as_dict() if error else None

    def _check(self, view: View) -> AghError | None:
        session_id = view["id"]
        if view.get("archived"):
            return SessionArchived(session_id)
        if view["badge"] == "not-responding":
            return KeeperNotResponding(session_id)
        if view["state"] in LIVE_STATES:
            if view["state"] != "active" or self._steal or is_attachable(view, self._now, self._holder):
                return None
            name = view.get("name") or session_id
            if is_leased(view.get("attach"), self._now, self._holder):
                reason = f"is in use by {describe_holder(view['attach'], datetime.now(UTC))}"
            else:
                reason = f"is {view['badge']}, so you cannot attach to it"
            return SessionNotAttachable(name, reason)
        try:
            check_log_and_workspace(view)
        except AghError as error:
            return error
        agent = (view.get("kind"), view["agent_name"], *(view.get("command") or ()), view["workspace_path"])
        if agent not in self._agents:
            self._agents[agent] = _check_agent(view)
        return self._agents[agent]


def check_log_and_workspace(view: View) -> None:
    """Refuse a stopped session whose log or workspace is gone; a worktree can be made again."""
    metadata: Any = view
    check(metadata, session_of(view["id"]))
    origin = (view.get("worktree") or {}).get("origin")
    if view.get("worktree") and not os.path.isdir(view["workspace_path"]) and not os.path.isdir(str(origin)):
        raise WorkspaceGone(f"session {view['id']}: its workspace {view['workspace_path']}")


def _check_agent(view: View) -> AghError | None:
    metadata: Any = view
    try:
        if view.get("kind"):
            keeper_module(view["kind"])
        else:
            check_agent(metadata, None)
    except AghError as error:
        return error
    return None
