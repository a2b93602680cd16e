"""The sessions of this home: listing them, and finding the one that a user means.

The metadata in each session's own meta.json is what counts; there is no index that could be wrong. A session
whose metadata cannot be read is listed as such and never hides the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from agh.errors import AmbiguousSession, DataDamaged, MetaInvalid, NamesBusy, SessionNotFound
from agh.home import Session, ensure_home, is_session_id, session_of, sessions_path
from agh.store import lock as locks
from agh.store import meta
from agh.store.meta import Meta

NAMING_LIMIT = 60.0
SUGGESTED_OF = 1000  # the newest sessions, so that suggesting one stays fast


def session_ids(besides: Iterable[str] = ()) -> list[str]:
    """List all session ids but some, oldest first."""
    try:
        names = os.listdir(sessions_path())
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise DataDamaged(f"{sessions_path()} is not a directory") from None
    return sorted(filter(is_session_id, {*names}.difference(besides) if besides else names))


def all_sessions() -> list[Session]:
    """List all sessions, oldest first."""
    base = sessions_path()
    return [Session(session_id, f"{base}/{session_id}") for session_id in session_ids()]


def scan() -> Iterator[tuple[Session, Meta | MetaInvalid]]:
    """Yield every session, oldest first, with its metadata or the error of reading it."""
    for session in all_sessions():
        try:
            yield session, meta.read(session)
        except MetaInvalid as error:
            yield session, error


def read_metadata() -> Iterator[Meta]:
    """Yield the metadata of every session whose metadata can be read."""
    return (metadata for _, metadata in scan() if not isinstance(metadata, MetaInvalid))


def resolve(
    reference: str, workspace: str | None = None, belongs: Callable[[Meta], bool] | None = None
) -> Session:
    """Return the session meant by an id, a unique prefix of one, a name, or `@last`.

    `@last` is the newest session of `workspace` (default: the working directory) or of one above it. A name
    is looked up there first, then everywhere; or only among the sessions that `belongs` accepts.
    """
    if reference == "@last":
        return _last(os.path.realpath(workspace or working_directory()))
    if is_session_id(reference):
        session = session_of(reference)
        if os.path.isdir(session):
            return session
    if not reference.startswith("sess-"):
        named = _named(reference, os.path.realpath(workspace or working_directory()), belongs)
        if named:
            return _only(reference, named)
    prefix = reference if reference.startswith("sess-") else f"sess-{reference}"
    if prefix != "sess-":
        matching = [session_of(session_id) for session_id in session_ids() if session_id.startswith(prefix)]
        if matching:
            return _only(reference, matching)
    raise SessionNotFound(repr(reference), hint=_suggest(reference))


def name_owner(name: str, paths: Iterable[str]) -> Session | None:
    """Return the session that has this name in one of these workspaces.

    Archived sessions have given their names away.
    """
    directories = set(paths)
    for session, metadata in _with_name(name):
        if not metadata.get("archived") and directories.intersection(workspaces(metadata)):
            return session
    return None


def named_here(name: str, workspace: str) -> Session | None:
    """Return the session in use that has this name in a workspace or in the nearest one above it."""
    in_use = [pair for pair in _with_name(name) if not pair[1].get("archived")]
    nearest = _nearest(in_use, workspace)
    return _only(name, nearest) if nearest else None


@contextmanager
def lock_names(name: str | None = None) -> Iterator[None]:
    """Lock a name of this home, or all names: if it is free inside the block, it stays free until it ends.

    Hundreds of commands may name sessions at once, and each reads thousands of names. They wait only for
    those that use the same name, and for those that lock all.
    """
    base = ensure_home()
    part = None if name is None else crc32(name.encode(errors="surrogatepass"))
    deadline, pause = time.monotonic() + NAMING_LIMIT, 0.005
    while (lock := locks.take_directory(base, part)) is None:
        if time.monotonic() > deadline:
            raise NamesBusy(f"{NAMING_LIMIT:g}")
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)  # hundreds that look every 5 ms would take all of a processor
    with lock:
        yield


def working_directory() -> str:
    """Return the working directory, or / if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def newest(workspace: str, *, archived: bool = False) -> Session | None:
    """Return the newest session of a workspace or of a directory above it, in use or archived."""
    for session_id in reversed(session_ids()):
        session = session_of(session_id)
        try:
            metadata = meta.read(session)
        except MetaInvalid:
            continue
        if bool(metadata.get("archived")) is archived and in_workspace(metadata, workspace):
            return session
    return None


def workspaces(metadata: Mapping[str, Any]) -> list[str]:
    """List the directories a session belongs to: its workspace, and the origin of its worktree."""
    origin = (metadata.get("worktree") or {}).get("origin")
    return [path for path in (metadata.get("workspace_path"), origin) if path]


def in_workspace(metadata: Mapping[str, Any], workspace: str) -> bool:
    """Tell whether the session's workspace is `workspace` or a directory above it."""
    return any(is_above(path, workspace) for path in workspaces(metadata))


def _with_name(name: str) -> list[tuple[Session, Meta]]:
    return [
        (session, metadata)
        for session in all_sessions()
        if (metadata := meta.read_if_named(session, name)) is not None
    ]


def _named(name: str, workspace: str, belongs: Callable[[Meta], bool] | None) -> list[Session]:
    """Return the sessions that a name may mean: in use before archived, and here before elsewhere."""
    pairs = [pair for pair in _with_name(name) if belongs is None or belongs(pair[1])]
    for archived in (False, True):
        alike = [pair for pair in pairs if bool(pair[1].get("archived")) is archived]
        if alike:
            return _nearest(alike, workspace) or [session for session, _ in alike]
    return []


def _nearest(pairs: list[tuple[Session, Meta]], workspace: str) -> list[Session]:
    """Return those of the innermost directory that is the workspace or above it."""
    depths = [
        max((len(path) for path in workspaces(metadata) if is_above(path, workspace)), default=-1)
        for _, metadata in pairs
    ]
    deepest = max(depths, default=-1)
    return [session for depth, (session, _) in zip(depths, pairs, strict=True) if depth == deepest >= 0]


def is_above(path: str, workspace: str) -> bool:
    """Tell whether a path is a workspace or a directory above it."""
    return f"{workspace}/".startswith(path.rstrip("/") + "/")


def _last(workspace: str) -> Session:
    session = newest(workspace) or newest(workspace, archived=True)
    if session is None:
        raise SessionNotFound(f"@last: there is none in {workspace} yet", hint="agh session new")
    return session


def _suggest(reference: str) -> str | None:
    """Suggest the closest name or id. All ids look alike, so an id must be a very near miss."""
    from agh.core.suggest import closest

    ids = session_ids()[-SUGGESTED_OF:]
    if reference.startswith("sess-"):
        close = closest(reference, ids, cutoff=0.9)
    else:
        close = closest(reference, filter(None, (_name(session_id) for session_id in ids)))
    return f"did you mean {close}?" if close else None


def _name(session_id: str) -> str | None:
    try:
        return meta.read(session_of(session_id)).get("name")
    except MetaInvalid:
        return None


def _only(reference: str, matching: list[Session]) -> Session:
    """Return the only session, or raise AmbiguousSession."""
    if len(matching) > 1:
        descriptions = ", ".join(map(_describe, matching[:5]))
        raise AmbiguousSession(repr(reference), descriptions + (", …" if len(matching) > 5 else ""))
    return matching[0]


def _describe(session: Session) -> str:
    """Return the id of a session and its workspace, if its metadata can be read."""
    try:
        return f"{session.id} in {meta.read(session)['workspace_path']}"
    except MetaInvalid:
        return session.id
