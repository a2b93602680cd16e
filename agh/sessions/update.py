"""Changing what people may change about a session, through its keeper when there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh.errors import KeeperGone, SessionLive
from agh.home import Session
from agh.keeper import client
from agh.sessions.new import check_mode, check_name
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.views import session_view, update_metadata


def rename(session: Session, name: str) -> None:
    """Give the session a name; the empty one takes it away."""
    with sessions.lock_names():
        if name:
            check_name(name, sessions.workspaces(meta.read(session)), session)
        _change(session, name=name or None)


def archive(session: Session, *, undo: bool = False) -> None:
    """Put a session that is not live away, or take it out of the archive."""
    session_id = session.id
    if locks.is_held(session) and not undo:
        raise SessionLive(session_id)
    with sessions.lock_names():
        view = session_view(session)
        if undo and view.get("name"):
            check_name(view["name"], sessions.workspaces(view), session)
        _change(session, archived=not undo)


def choose(session: Session, choices: Mapping[str, str]) -> None:
    """Choose the agent's model, mode and other options, or the session's permissions: all of them or none."""
    options = {name: value for name, value in choices.items() if name != "permissions"}
    permissions = choices.get("permissions")
    if permissions is not None:
        check_mode(permissions)
    if len(choices) > 1:
        _check_options(session, options)
    for name, value in options.items():
        _choose(session, name, value)
    if permissions is not None:
        _change(session, permissions=permissions)


def _check_options(session: Session, options: Mapping[str, str]) -> None:
    """Refuse what a live session's agent does not offer, before anything is chosen."""
    try:
        for name, value in options.items():
            client.call(session, "set", name=name, value=value, check=True)
    except KeeperGone:
        pass  # what the agent offers shows at the next resume


def _choose(session: Session, name: str, value: str) -> None:
    try:
        client.call(session, "set", name=name, value=value)
    except KeeperGone:
        metadata = meta.read(session)
        meta.choose(metadata, name, value)
        update_metadata(session, **{key: metadata.get(key) for key in ("model", "mode", "options")})


def _change(session: Session, **changes: Any) -> None:
    try:
        client.call(session, "update", **changes)
    except KeeperGone:
        update_metadata(session, **changes)
