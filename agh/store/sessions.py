"""The sessions of this home: listing them, and finding the one that a user means.

Listing reads one small meta.json per session; no index is kept, so none can be wrong. A session whose
metadata cannot be read is listed as such and never hides the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from agh.errors import AmbiguousSession, MetaInvalid, SessionNotFound
from agh.home import SESSION_ID, session_path, sessions_path
from agh.store import meta
from agh.store.meta import Meta


def session_ids() -> list[str]:
    """All ids, oldest first."""
    try:
        names = os.listdir(sessions_path())
    except FileNotFoundError:
        return []
    return sorted(filter(SESSION_ID.fullmatch, names))


def scan() -> Iterator[tuple[str, Meta | MetaInvalid]]:
    """Every session's directory, with its metadata or the reason why there is none."""
    base = sessions_path()
    for session_id in session_ids():
        directory = os.path.join(base, session_id)
        try:
            yield directory, meta.read(directory)
        except MetaInvalid as error:
            yield directory, error


def resolve(reference: str, workspace: str | None = None) -> str:
    """The directory of the session meant by an id, a unique prefix of one, a name, or `@last`.

    `@last` is the newest session of `workspace` (default: the working directory) or of one above it.
    """
    if reference == "@last":
        return _last(os.path.realpath(workspace or os.getcwd()))
    if SESSION_ID.fullmatch(reference):
        directory = session_path(reference)
        if os.path.isdir(directory):
            return directory
    if not reference.startswith("sess-"):
        readable = [(path, found) for path, found in scan() if not isinstance(found, MetaInvalid)]
        named = [(path, found) for path, found in readable if found.get("name") == reference]
        in_use = [path for path, found in named if not found.get("archived")]
        named_paths = in_use or [path for path, _ in named]
        if named_paths:
            return _only(reference, named_paths)
    prefix = reference if reference.startswith("sess-") else f"sess-{reference}"
    if prefix != "sess-":
        matching = [session_path(one) for one in session_ids() if one.startswith(prefix)]
        if matching:
            return _only(reference, matching)
    raise SessionNotFound(repr(reference))


def in_workspace(found: Meta, workspace: str) -> bool:
    """Whether the session's workspace is `workspace` or a directory above it."""
    path = found.get("workspace_path") or ""
    return bool(path) and (workspace == path or workspace.startswith(path.rstrip("/") + "/"))


def _last(workspace: str) -> str:
    for session_id in reversed(session_ids()):
        directory = session_path(session_id)
        try:
            found = meta.read(directory)
        except MetaInvalid:
            continue
        if in_workspace(found, workspace):
            return directory
    raise SessionNotFound("@last", hint="agh session new")


def _only(reference: str, directories: list[str]) -> str:
    if len(directories) > 1:
        shown = ", ".join(os.path.basename(path) for path in directories[:5])
        raise AmbiguousSession(repr(reference), shown + (", …" if len(directories) > 5 else ""))
    return directories[0]
