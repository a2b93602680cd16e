"""Changing what people may change about a session, through its keeper when there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from agh.errors import KeeperGone, SessionLive
from agh.keeper import client
from agh.sessions.new import check_name, checked_mode
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.views import owned_update, session_view


def rename(directory: str, name: str) -> None:
    """Give the session a name; the empty one takes it away."""
    with sessions.naming():
        if name:
            check_name(name, sessions.workspaces(meta.read(directory)), os.path.basename(directory))
        _change(directory, name=name or None)


def archive(directory: str, *, undo: bool = False) -> None:
    """Put a session that is not live away, or take it out of the archive."""
    session_id = os.path.basename(directory)
    if locks.is_held(directory) and not undo:
        raise SessionLive(session_id)
    with sessions.naming():
        view = session_view(directory)
        if undo and view.get("name"):
            check_name(view["name"], sessions.workspaces(view), session_id)
        _change(directory, archived=not undo)


def choose(directory: str, choices: Mapping[str, str]) -> None:
    """Choose the agent's model, mode and other options, or the session's permissions: all of them or none."""
    options = {name: value for name, value in choices.items() if name != "permissions"}
    permissions = choices.get("permissions")
    if permissions is not None:
        checked_mode(permissions)
    if len(choices) > 1:
        _check_options(directory, options)
    for name, value in options.items():
        _choose(directory, name, value)
    if permissions is not None:
        _change(directory, permissions=permissions)


def _check_options(directory: str, options: Mapping[str, str]) -> None:
    """Refuse what a live session's agent does not offer, before anything is chosen."""
    try:
        for name, value in options.items():
            client.call(directory, "set", name=name, value=value, check=True)
    except KeeperGone:
        pass  # what the agent offers shows at the next resume


def _choose(directory: str, name: str, value: str) -> None:
    try:
        client.call(directory, "set", name=name, value=value)
    except KeeperGone:
        metadata = meta.read(directory)
        meta.choose(metadata, name, value)
        owned_update(directory, **{key: metadata.get(key) for key in ("model", "mode", "options")})


def _change(directory: str, **changes: Any) -> None:
    try:
        client.call(directory, "update", **changes)
    except KeeperGone:
        owned_update(directory, **changes)
