"""Choosing sessions to list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from agh.core.events import timestamp
from agh.core.status import BADGES, LIVE_STATES, NOT_RESPONDING, STATES
from agh.errors import Usage
from agh.home import session_of
from agh.store import sessions, workspaces
from agh.store.views import View, list_briefs, list_views, read_views

RECENT = timedelta(days=7)
SHOWN_STATES = (*STATES, "unknown")  # unknown is a session whose metadata cannot be read


def select(
    everything: bool,
    resumable: bool,
    workspace: str | None,
    state: str | None,
    badge: str | None,
    agent: str | None,
    holder: str | None = None,
    why: bool = False,
    asks_keepers: bool = True,
    brief: bool = False,
) -> list[View]:
    """Return the sessions that fit, newest activity first; old and archived ones only with `everything`.

    `resumable` are those that `holder` can resume or attach to. With `why`, the others stay, and `why_not` of
    each session says what keeps it from that. Without `asks_keepers`, a keeper that does not respond goes
    unnoticed. With `brief`, the views need have no more fields than a table shows (agh.store.briefs).
    """
    for value, values in ((state, SHOWN_STATES), (badge, BADGES)):
        if value and value not in values:
            raise Usage(f"{value!r} is not one of {', '.join(values)}")
    since = timestamp(datetime.now(UTC) - RECENT)
    registered = workspaces.find(workspace) if workspace else None

    def keep(view: View) -> bool:
        recent = view["state"] in LIVE_STATES or str(view.get("updated_at") or "~") >= since
        return (
            (everything or (recent and not view.get("archived")))
            and (not resumable or why or not view.get("archived"))
            and (registered is None or is_in(view, registered, workspace))
            and (not state or view["state"] == state)
            and (not agent or view.get("agent_name") == agent)
        )

    views = list_briefs(keep, holder) if brief and not resumable else list_views(keep, holder)
    if asks_keepers:
        mark_stuck(views)
    if resumable:
        from agh.sessions.resume import Eligibility

        check = Eligibility(holder)
        views = [view | {"why_not": check(view)} for view in views]
        if not why:
            views = [view for view in views if view.pop("why_not") is None]
    if badge:
        views = [view for view in views if view["badge"] == badge]
    if workspace and not views:
        workspaces.find_existing(workspace)
    return views


def select_first(limit: int, holder: str, **filters: Any) -> list[View]:
    """Return the first sessions that `select` returns. Most of the others are not read."""
    if filters["resumable"]:
        return select(holder=holder, **filters)[:limit]
    briefs = select(holder=holder, brief=True, **filters)[:limit]
    views = list(read_views([session_of(view["id"]) for view in briefs], holder))
    mark_stuck(views)
    return views


def select_page(
    limit: int, cursor: str | None, search: str | None, **filters: Any
) -> tuple[list[View], str | None]:
    """Return so many of the sessions that `select` returns, after a cursor, and the cursor of the next page.

    `search` are words that must all occur in what a table shows of a session. The cursor names the last
    session of a page, not a number of sessions: the next page leaves none out when others come or go.
    """
    last = tuple(cursor.split("/", 1)) if cursor else None
    words = (search or "").lower().split()

    def belongs(view: View) -> bool:
        return (last is None or _position(view) < last) and all(word in _searched(view) for word in words)

    is_brief = not filters["resumable"]
    views = select(**filters, brief=is_brief, asks_keepers=not is_brief or bool(filters["badge"]))
    views = list(islice(filter(belongs, views), limit + 1))
    following = "/".join(_position(views[limit - 1])) if len(views) > limit else None
    del views[limit:]
    if is_brief:
        views = list(read_views([session_of(view["id"]) for view in views], None))
        mark_stuck(views)
    return views, following


def _position(view: View) -> tuple[str, ...]:
    """Return what the list is sorted by."""
    return view.get("updated_at") or "", view["id"]


def _searched(view: View) -> str:
    """Return the text of a session that a search looks at."""
    fields = ("name", "title", "id", "agent_name", "workspace_path", "badge")
    return " ".join(str(view.get(field) or "") for field in fields).lower()


def mark_stuck(views: list[View]) -> None:
    """Give the sessions whose keepers do not respond the badge that says so."""
    live = {session_of(view["id"]): view for view in views if view["state"] in LIVE_STATES}
    if live:
        from agh.keeper.pulse import find_stuck

        for session in find_stuck(live):
            live[session] |= NOT_RESPONDING


def is_in(view: View, registered: workspaces.Workspace, reference: str | None) -> bool:
    """Tell whether the session is of that workspace: by its path, or by an id that it was given."""
    return registered.path in sessions.workspaces(view) or view.get("workspace_id") == (
        registered.id or reference
    )
