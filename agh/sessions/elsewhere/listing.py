"""One list of the sessions of several homes, each listed by the agh of its own machine.

Promises: the hosts are asked at the same time and within one limit. A host that fails is an entry of its own
and takes nothing from the others. What a host says about a session is checked before anybody shows it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import orjson

from agh import config
from agh.adapters.far_command import FarCommand
from agh.core.named_tuple import NamedTuple
from agh.core.status import BADGES
from agh.errors import AghError, FarCommandFailed
from agh.home import is_session_id
from agh.sessions.elsewhere.command import prepare_command, run_command
from agh.sessions.listing import SHOWN_STATES, select, select_first
from agh.store.views import View

HERE = "."
LIMIT = 30.0  # seconds for a host to answer
_FLAGS = (("everything", "--all"), ("resumable", "--resumable"), ("why", "--why"))
_OPTIONS = (("workspace", "--workspace"), ("state", "--state"), ("badge", "--status"), ("agent", "--agent"))
_TYPES: dict[str, type] = {
    **dict.fromkeys(("current", "spent", "failure", "activity", "why_not", "error", "worktree"), dict),
    **dict.fromkeys(("name", "title", "last_message", "agent_name", "model", "workspace_path"), str),
}


class HostList(NamedTuple):
    """The sessions of a host, or why they are not known."""

    host: str
    views: list[View]
    error: AghError | None = None


def list_hosts(
    hosts: Iterable[str], holder: str, limit: int | None, limit_seconds: float = LIMIT, **filters: Any
) -> list[HostList]:
    """Return the sessions of each host that fit, in the order of the hosts; `.` is this home.

    Each session's view has a `host`: the place as it was named. Raises if a place makes no sense.
    """
    names, arguments = list(dict.fromkeys(hosts)), build_arguments(limit, **filters)
    places = config.load(os.getcwd())["places"]
    asks = [
        _ask_here(holder, limit, filters)
        if host == HERE
        else _ask_there(prepare_command(host, arguments, places), limit_seconds)
        for host in names
    ]
    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(_list_host, names, asks))


def merge(lists: Iterable[HostList], limit: int | None) -> list[View]:
    """Return the sessions of all hosts, newest activity first."""
    views = [view for listed in lists for view in listed.views]
    views.sort(key=lambda view: (view.get("updated_at") or "", view["id"]), reverse=True)
    return views if limit is None else views[:limit]


def build_arguments(limit: int | None, **filters: Any) -> list[str]:
    """Return the arguments of the `agh session list` that a host runs."""
    flags = [flag for name, flag in _FLAGS if filters.get(name)]
    options = [f"{option}={filters[name]}" for name, option in _OPTIONS if filters.get(name)]
    count = [] if limit is None else [f"--limit={limit}"]
    return ["session", "list", "-o", "json", *flags, *options, *count]


def _list_host(host: str, ask: Callable[[], list[View]]) -> HostList:
    try:
        return HostList(host, [{**view, "host": host} for view in ask()])
    except AghError as error:
        return HostList(host, [], error)


def _ask_here(holder: str, limit: int | None, filters: dict[str, Any]) -> Callable[[], list[View]]:
    if limit is None:
        return lambda: select(holder=holder, **filters)
    return lambda: select_first(limit, holder, **filters)


def _ask_there(command: FarCommand, limit: float) -> Callable[[], list[View]]:
    def ask() -> list[View]:
        try:
            rows = orjson.loads(run_command(command, limit))["sessions"]
            return [check_view(row) for row in rows]
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise FarCommandFailed(command.place, f"its answer is not a list of sessions ({error})") from None

    return ask


def check_view(row: Any) -> View:
    """Return a session as a host describes it, with nothing in it that a table could not show.

    Raises ValueError if it has no id; anything else that is odd is left out.
    """
    if not isinstance(row, dict) or not is_session_id(str(row.get("id"))):
        raise ValueError("a session has no id")
    view = {
        key: value
        for key, value in row.items()
        if not (key in _TYPES and value is not None and not isinstance(value, _TYPES[key]))
    }
    view["state"] = row.get("state") if row.get("state") in SHOWN_STATES else "unknown"
    view["badge"] = row.get("badge") if row.get("badge") in BADGES else "unknown"
    for key in ("updated_at", "resumes_at"):
        if view.get(key) is not None and not _is_time(view[key]):
            view[key] = None
    for key in ("error", "why_not"):
        if key in view and "message" not in (view[key] or {}):
            del view[key]
    return view


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False
