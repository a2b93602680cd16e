"""The sessions of this home: listing them, and finding the one that a user means.

Listing reads one small meta.json per session; no index is kept, so none can be wrong. A session whose
metadata cannot be read is listed as such and never hides the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agh.core.suggest import closest
from agh.errors import AmbiguousSession, DataDamaged, MetaInvalid, SessionBusy, SessionNotFound
from agh.home import SESSION_ID, ensure_home, session_path, sessions_path
from agh.store import lock, meta
from agh.store.meta import Meta

NAMING_LIMIT = 10.0
SUGGESTED_OF = 1000  # the newest; a guess must not take long


def session_ids() -> list[str]:
    """All ids, oldest first."""
    try:
        names = os.listdir(sessions_path())
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise DataDamaged(f"{sessions_path()} is not a directory") from None
    return sorted(filter(SESSION_ID.fullmatch, names))


def scan() -> Iterator[tuple[str, Meta | MetaInvalid]]:
    """Every session's directory, with its metadata or the reason why there is none."""
    base = sessions_path()
    for session_id in session_ids():
        directory = f"{base}/{session_id}"
        try:
            yield directory, meta.read(directory)
        except MetaInvalid as error:
            yield directory, error


def readable() -> Iterator[Meta]:
    """The metadata of every session that has some."""
    return (found for _, found in scan() if not isinstance(found, MetaInvalid))


def resolve(reference: str, workspace: str | None = None) -> str:
    """The directory of the session meant by an id, a unique prefix of one, a name, or `@last`.

    `@last` is the newest session of `workspace` (default: the working directory) or of one above it.
    """
    if reference == "@last":
        return _last(os.path.realpath(workspace or here()))
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
    raise SessionNotFound(repr(reference), hint=_suggestion(reference))


@contextmanager
def naming() -> Iterator[None]:
    """Hold the names of this home: what is found free inside is still free when it is taken."""
    base = ensure_home()
    deadline = time.monotonic() + NAMING_LIMIT
    while (held := lock.take(base)) is None:
        if time.monotonic() > deadline:
            raise SessionBusy("(the names)")
        time.sleep(0.005)
    with held:
        yield


def here() -> str:
    """The working directory; one that was removed is nowhere."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def workspaces(found: Mapping[str, Any]) -> list[str]:
    """Where a session belongs: its workspace, and the directory that its worktree was made for."""
    made_for = (found.get("worktree") or {}).get("origin")
    return [path for path in (found.get("workspace_path"), made_for) if path]


def in_workspace(found: Meta, workspace: str) -> bool:
    """Whether the session's workspace is `workspace` or a directory above it."""
    return any(f"{workspace}/".startswith(path.rstrip("/") + "/") for path in workspaces(found))


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


def _suggestion(reference: str) -> str | None:
    """A mistyped name is found by its likeness; ids are all alike, so only a near miss counts."""
    ids = session_ids()[-SUGGESTED_OF:]
    if reference.startswith("sess-"):
        close = closest(reference, ids, alike=0.9)
    else:
        close = closest(reference, filter(None, (_name(one) for one in ids)))
    return f"did you mean {close}?" if close else None


def _name(session_id: str) -> str | None:
    try:
        return meta.read(session_path(session_id)).get("name")
    except MetaInvalid:
        return None


def _only(reference: str, directories: list[str]) -> str:
    if len(directories) > 1:
        shown = ", ".join(os.path.basename(path) for path in directories[:5])
        raise AmbiguousSession(repr(reference), shown + (", …" if len(directories) > 5 else ""))
    return directories[0]
