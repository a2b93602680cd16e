"""The sessions that an agent has of its own, as its `session/list` tells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agh.adapters import registry
from agh.adapters.restore import METHOD_NOT_FOUND, has_capability
from agh.core.acp.frames import only_dicts
from agh.core.acp.reasons import is_auth_failure
from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.errors import AgentFailed, AgentNeedsLogin, AgentSessionUnknown, ListNotOffered
from agh.keeper.agent.advice import describe_method, kind_of, login_hint
from agh.keeper.agent.connection import RpcError
from agh.sessions.agent.greet import Greeted
from agh.sessions.agent.login import missing_variables

MAX_PAGES = 10_000
MAX_ID, MAX_TITLE = 1_000, 200  # characters


class OwnSession(NamedTuple):
    """A session as its agent lists it."""

    id: str
    title: str | None
    cwd: str
    updated_at: str | None
    is_listed: bool = True


def list_sessions(greeted: Greeted, cwd: str | None) -> list[OwnSession]:
    """Return the sessions that the agent lists for a directory, or all; newest first if it says when."""
    record = greeted.launch.agent
    if not has_capability(greeted.capabilities, "list"):
        raise _not_offered(record.name)
    params: dict[str, Any] = {} if cwd is None else {"cwd": cwd}
    own_sessions: dict[str, OwnSession] = {}
    cursors: set[str] = set()
    for _ in range(MAX_PAGES):
        try:
            answer = call(greeted, "session/list", params)
        except RpcError as error:
            if error.error.get("code") == METHOD_NOT_FOUND:
                raise _not_offered(record.name) from None
            raise
        answer = answer if isinstance(answer, dict) else {}
        for info in only_dicts(answer.get("sessions")):
            own = _read(info, greeted.launch.cwd)
            if own is not None and (cwd is None or _is_same(own.cwd, cwd)):
                own_sessions.setdefault(own.id, own)
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return sorted(own_sessions.values(), key=lambda own: own.updated_at or "", reverse=True)
        if cursor in cursors:
            raise AgentFailed(record.name, "its list of sessions does not end: it repeats a cursor")
        cursors.add(cursor)
        params["cursor"] = cursor
    raise AgentFailed(record.name, f"its list of sessions has more than {MAX_PAGES} pages")


def choose(greeted: Greeted, cwd: str, ids: Sequence[str], *, everywhere: bool) -> list[OwnSession]:
    """Return the named sessions of an agent, or all of a directory; raise if there is no such session.

    An agent may have more than it lists: Codex leaves out what `codex exec` made. A session that is named
    and not listed is expected in the directory, and loaded to see whether it is there.
    """
    if not ids:
        return list_sessions(greeted, None if everywhere else cwd)
    listed: dict[str, OwnSession] = {}
    if has_capability(greeted.capabilities, "list"):
        listed = {own.id: own for own in [*list_sessions(greeted, cwd), *list_sessions(greeted, None)]}
    return [listed.get(own_id) or _try(greeted, own_id, cwd) for own_id in dict.fromkeys(ids)]


def _try(greeted: Greeted, own_id: str, cwd: str) -> OwnSession:
    """Load a session that is not listed; raise if the agent does not have it."""
    try:
        call(greeted, "session/load", {"sessionId": own_id, "cwd": cwd, "mcpServers": []})
    except RpcError as error:
        raise AgentSessionUnknown(greeted.launch.agent.name, own_id, reason=error.message) from None
    return OwnSession(own_id, None, cwd, None, is_listed=False)


def call(greeted: Greeted, method: str, params: dict[str, Any]) -> Any:
    """Send a request and return its result; log in first if the agent asks for it and a key is set."""
    limit = greeted.settings["timeouts.load" if method == "session/load" else "timeouts.new"]
    try:
        return greeted.agent.call(method, params, limit)
    except RpcError as error:
        log_in_or_raise(greeted, error)
        return greeted.agent.call(method, params, limit)


def log_in_or_raise(greeted: Greeted, error: RpcError) -> None:
    """Log in by a method that needs nobody; raise the error if it is another, or if there is none."""
    if not is_auth_failure(error.error):
        raise error
    record, environ = greeted.launch.agent, greeted.launch.environ
    for method in greeted.methods:
        has_keys = kind_of(method) == "env_var" and not missing_variables(method, environ)
        if has_keys or (kind_of(method) != "terminal" and method["id"] == record.auth_method):
            greeted.agent.call("authenticate", {"methodId": method["id"]}, greeted.settings["timeouts.new"])
            return
    methods = [describe_method(method) for method in greeted.methods]
    raise AgentNeedsLogin(record.name, error.message, hint=login_hint(record), methods=methods) from None


def _read(info: dict[str, Any], default_cwd: str) -> OwnSession | None:
    """Return a listed session; None if it has no id that could be used."""
    own_id, title, cwd = info.get("sessionId"), info.get("title"), info.get("cwd")
    if not isinstance(own_id, str) or not 0 < len(own_id) <= MAX_ID:
        return None
    is_path = isinstance(cwd, str) and cwd.startswith("/") and "\0" not in cwd
    title = " ".join(title.split())[:MAX_TITLE] if isinstance(title, str) else None
    return OwnSession(
        own_id, title or None, str(cwd) if is_path else default_cwd, _time(info.get("updatedAt"))
    )


def _time(text: Any) -> str | None:
    """Return a time as agh writes it; None if it is not one."""
    try:
        moment = datetime.fromisoformat(text)
        return timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (TypeError, ValueError, OverflowError):
        return None


def _is_same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _not_offered(name: str) -> ListNotOffered:
    has_importer = name in registry.importers()
    return ListNotOffered(name, hint=f"agh session import --from {name}" if has_importer else None)
