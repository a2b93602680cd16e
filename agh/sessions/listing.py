"""Choosing sessions to list: as views, as the briefs that a table shows, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from agh.core.display.brief import Brief, brief_of
from agh.core.display.times import timestamp
from agh.core.status import BADGES, LIVE_STATES, NOT_RESPONDING, STATES
from agh.errors import Usage
from agh.home import session_of
from agh.store import sessions
from agh.store.views import View, list_views, read_views

if TYPE_CHECKING:
    from agh.store.workspaces import Workspace

Test = Callable[[Brief], bool]

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
) -> list[View]:
    """Return the sessions that fit, newest activity first; old and archived ones only with `everything`.

    `resumable` are those that `holder` can resume or attach to. With `why`, the others stay, and `why_not` of
    each session says what keeps it from that. Without `asks_keepers`, a keeper that does not respond goes
    unnoticed.
    """
    tests = _tests(everything, workspace, state, badge, agent)
    if resumable and not why:
        tests.append(lambda brief: not brief.is_archived)
    views = list_views(lambda view: _passes(brief_of(view), tests), holder)
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
        _check_workspace(workspace)
    return views


def select_briefs(*, holder: str, **filters: Any) -> list[Brief]:
    """Return the briefs of the sessions that `select` returns. Most of the sessions are not read."""
    if filters["resumable"]:
        return list(map(brief_of, select(holder=holder, **filters)))
    return _Listing(holder).select(**filters)


def select_documents(*, holder: str, limit: int | None, **filters: Any) -> Sequence[bytes | memoryview]:
    """Return the first sessions that `select` returns as JSON. Most of the sessions are not read."""
    if filters["resumable"]:
        import orjson

        return list(map(orjson.dumps, select(holder=holder, **filters)[:limit]))
    listing = _Listing(holder)
    return listing.cache.documents([brief.id for brief in listing.select(**filters)[:limit]])


def select_first(limit: int, holder: str, **filters: Any) -> list[View]:
    """Return the first sessions that `select` returns. Most of the others are not read."""
    if filters["resumable"]:
        return select(holder=holder, **filters)[:limit]
    return _read(_Listing(holder).select(**filters)[:limit], holder)


def select_page(
    limit: int, cursor: str | None, search: str | None, **filters: Any
) -> tuple[list[View], str | None]:
    """Return so many of the sessions that `select` returns, after a cursor, and the cursor of the next page.

    `search` are words that must all occur in what a table shows of a session. The cursor names the last
    session of a page, not a number of sessions: the next page leaves none out when others come or go.
    """
    last = tuple(cursor.split("/", 1)) if cursor else None
    words = (search or "").lower().split()

    def belongs(brief: Brief) -> bool:
        return (last is None or brief[:2] < last) and all(word in _searched(brief) for word in words)

    views: dict[str, View] = {}
    if filters["resumable"]:
        views = {view["id"]: view for view in select(**filters)}
        briefs = list(map(brief_of, views.values()))
    else:
        briefs = _Listing(None).select(**filters, asks_keepers=bool(filters["badge"]))
    page = list(islice(filter(belongs, briefs), limit + 1))
    following = "/".join(page[limit - 1][:2]) if len(page) > limit else None
    del page[limit:]
    return [views[brief.id] for brief in page] if views else _read(page, None), following


def _read(briefs: Iterable[Brief], holder: str | None) -> list[View]:
    """Return the views of sessions, read now."""
    views = list(read_views([session_of(brief.id) for brief in briefs], holder))
    mark_stuck(views)
    return views


def _searched(brief: Brief) -> str:
    """Return the text of a session that a search looks at."""
    fields = (brief.name, brief.title, brief.id, brief.agent, brief.workspace_path, brief.badge)
    return " ".join(fields).lower()


class _Listing:
    """A list that is made with the list cache."""

    def __init__(self, holder: str | None) -> None:
        from agh.store.caches.briefs import BriefCache

        self.cache = BriefCache(lambda some: read_views(some, holder))

    def select(
        self,
        everything: bool,
        workspace: str | None,
        state: str | None,
        badge: str | None,
        agent: str | None,
        asks_keepers: bool = True,
        **_: Any,
    ) -> list[Brief]:
        tests = _tests(everything, workspace, state, badge, agent)
        briefs = self.cache.briefs()
        self.cache.save()
        briefs.sort(reverse=True)
        if tests:
            briefs = [brief for brief in briefs if _passes(brief, tests)]
        if asks_keepers:
            briefs = self._with_stuck(briefs)
        if badge:
            briefs = [brief for brief in briefs if brief.badge == badge]
        if workspace and not briefs:
            _check_workspace(workspace)
        return briefs

    def _with_stuck(self, briefs: list[Brief]) -> list[Brief]:
        """Return the briefs, with the badge that says so on those whose keepers do not respond."""
        views = self.cache.views  # a live session is in no cache
        stuck = mark_stuck([views[brief.id] for brief in briefs if brief.id in views])
        if not stuck:
            return briefs
        return [brief_of(views[brief.id]) if brief.id in stuck else brief for brief in briefs]


def _tests(
    everything: bool, workspace: str | None, state: str | None, badge: str | None, agent: str | None
) -> list[Test]:
    """Return what a session must pass. The badge is not tested: a keeper may still turn out to be stuck."""
    for value, values in ((state, SHOWN_STATES), (badge, BADGES)):
        if value and value not in values:
            raise Usage(f"{value!r} is not one of {', '.join(values)}")
    tests: list[Test] = []
    if not everything:
        since = timestamp(datetime.now(UTC) - RECENT)
        tests.append(
            lambda brief: (
                not brief.is_archived
                and (brief.state in LIVE_STATES or not brief.updated_at or brief.updated_at >= since)
            )
        )
    if workspace:
        from agh.store.workspaces import find

        registered = find(workspace)
        tests.append(
            lambda brief: (
                registered.path in (brief.workspace_path, brief.origin)
                or brief.workspace_id == (registered.id or workspace)
            )
        )
    if state:
        tests.append(lambda brief: brief.state == state)
    if agent:
        tests.append(lambda brief: brief.agent == agent)
    return tests


def _passes(brief: Brief, tests: Iterable[Test]) -> bool:
    return all(test(brief) for test in tests)


def _check_workspace(reference: str) -> None:
    """Raise WorkspaceNotFound unless there is such a workspace."""
    from agh.store.workspaces import find_existing

    find_existing(reference)


def mark_stuck(views: Iterable[View]) -> set[str]:
    """Give the sessions whose keepers do not respond the badge that says so, and return their ids."""
    live = {session_of(view["id"]): view for view in views if view["state"] in LIVE_STATES}
    if not live:
        return set()
    from agh.keeper.pulse import find_stuck

    stuck = find_stuck(live)
    for session in stuck:
        live[session] |= NOT_RESPONDING
    return {session.id for session in stuck}


def is_in(view: View, registered: Workspace, reference: str | None) -> bool:
    """Tell whether the session is of that workspace: by its path, or by an id that it was given."""
    return registered.path in sessions.workspaces(view) or view.get("workspace_id") == (
        registered.id or reference
    )
