"""Finding the session of a name, or starting it: any number of calls at once give one session."""

from __future__ import annotations

import os
from typing import Any

from agh.errors import AghError, MetaInvalid, NameMismatch, NameTaken
from agh.keeper import client
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.store import meta, sessions, workspaces


def ensure(name: str, **options: Any) -> tuple[str, dict[str, Any] | None]:
    """Return the session's directory, and its keeper's hello if it is new. `options` are for `create`."""
    while True:
        directory = named(name)
        if directory is None:
            try:
                return create(name=name, **options)
            except NameTaken:  # somebody was faster
                continue
        try:
            client.await_started(directory)
            _check(name, meta.read(directory), options.get("agent"), options.get("workspace"))
        except MetaInvalid:
            if os.path.isdir(directory):
                raise
            continue  # it failed to start, and is gone
        if not meta.read(directory).get("acp_session_id"):  # it has never come up
            ensure_live(directory)
        return directory, None


def named(name: str) -> str | None:
    """Return the session in use that has this very name."""
    for directory, metadata in sessions.scan():
        if (
            not isinstance(metadata, AghError)
            and metadata.get("name") == name
            and not metadata.get("archived")
        ):
            return directory
    return None


def _check(name: str, metadata: meta.Meta, agent: str | None, workspace: str | None) -> None:
    """Refuse a session that has the name but is not what was asked for."""
    place = workspaces.existing(workspace).path
    if not sessions.in_workspace(metadata, place):
        raise NameMismatch(
            name, metadata["id"], f"is in {metadata['workspace_path']}", hint="choose another name"
        )
    if agent and agent != metadata["agent_name"]:
        hint = f"agh session resume {name} --agent {agent}"
        raise NameMismatch(name, metadata["id"], f"runs {metadata['agent_name']}", hint=hint)
