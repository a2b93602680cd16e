"""Creating a session: its directory, its metadata and its empty log, then its first keeper."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agh import config
from agh.adapters import registry
from agh.config import PERMISSION_MODES
from agh.core.events import timestamp
from agh.errors import AghError, MetaInvalid, NameMismatch, NameTaken, Usage, WorkspaceGone
from agh.home import Session
from agh.keeper import client
from agh.keeper.spawn import next_id
from agh.sessions import worktree
from agh.sessions.start import ensure_live, start
from agh.store import meta, sessions, workspaces
from agh.store.create import create_session, publish
from agh.store.lock import Lock
from agh.store.meta import Meta


def create(
    *,
    agent: str | None = None,
    command: list[str] | None = None,
    name: str | None = None,
    workspace: str | None = None,
    permissions: str | None = None,
    options: Mapping[str, str] | None = None,
    limits: dict[str, float] | None = None,
    on: str | None = None,
    branch: str | None = None,
    system_prompt: dict[str, str] | None = None,
    allowed_tools: list[str] | None = None,
    rules: list[dict[str, str]] | None = None,
) -> tuple[Session, dict[str, Any]]:
    """Create a live session; return it and its keeper's hello. Bad input leaves nothing behind.

    `on` is the place where the agent runs. With a `branch` (empty: a new one) it has its own worktree.
    """
    try:
        registered = workspaces.existing(workspace or os.getcwd())
    except FileNotFoundError:
        raise WorkspaceGone("(new)", "(the working directory)", hint="cd to another directory") from None
    path = registered.path
    if not os.path.isdir(path):
        raise WorkspaceGone("(new)", path, hint="name a directory with --workspace")
    if permissions is not None:
        checked_mode(permissions)
    with _branched(path, branch, name) as (tree, path):
        settings = config.load(path)
        if command:
            agent_name = agent or os.path.basename(command[0])
        else:
            agent_name = registry.default_agent(agent or settings["agent"], path).name
        if on:
            check_place(on, agent_name, command, path, settings)
        session_id = next_id()
        with _named(name), create_session(session_id) as lock:
            metadata = first_meta(session_id, agent_name, command, name, path, permissions)
            metadata["place"], metadata["worktree"], metadata["workspace_id"] = on, tree, registered.id
            metadata["system_prompt"], metadata["allowed_tools"] = system_prompt, allowed_tools or []
            metadata["limits"] = limits or None
            metadata["permission_rules"] = rules or []
            metadata["mcp_servers"] = settings["mcp_servers"]
            for key, value in (options or {}).items():
                meta.choose(metadata, key, value)
            publish(lock, metadata)
        with lock:
            return lock.session, _first_start(lock)


@contextmanager
def _branched(path: str, branch: str | None, name: str | None) -> Iterator[tuple[worktree.Tree | None, str]]:
    """Create the worktree if a branch is named, and remove it again if creating the session fails."""
    if branch is None:
        yield None, path
        return
    with _named(name):
        pass  # refuse a name that is taken before anything is checked out
    tree, inner = worktree.add(path, branch, name, config.load(path)["session.worktrees"])
    try:
        yield tree, inner
    except BaseException:
        if not worktree.users_of(tree["path"], sessions.readable()):
            worktree.discard(tree)
        raise


def check_place(
    place: str, agent_name: str, command: list[str] | None, path: str, settings: dict[str, Any]
) -> None:
    """Refuse a place that nobody knows, or whose options make no sense. It need not be reachable."""
    from agh.keeper.agent.launch import agent_record, prepare

    prepare(agent_record(agent_name, command, path), path, settings, place=place)


def checked_mode(mode: str) -> str:
    """Return a permission mode if it is one."""
    if mode not in PERMISSION_MODES:
        raise Usage(f"permissions: {mode!r} is none of {', '.join(PERMISSION_MODES)}")
    return mode


@contextmanager
def _named(name: str | None) -> Iterator[None]:
    """Check a name, and keep others from taking it inside the block."""
    if name is None:
        yield
        return
    with sessions.naming():
        check_name(name)
        yield


def _first_start(lock: Lock) -> dict[str, Any]:
    """Start the keeper of a new session; remove the session if its options were at fault."""
    try:
        return start(lock, new=True)
    except AghError as error:
        if error.exit == Usage.exit:
            import shutil

            shutil.rmtree(lock.session)
        raise


def check_name(name: str, owner: str | None = None) -> None:
    """Refuse a name that looks like an id, or that a session other than `owner` has."""
    if not name or name.startswith(("sess-", "@", "-")) or not name.isprintable() or len(name) > 100:
        raise Usage(f"{name!r} cannot be a session's name", hint="use letters, digits, dots and dashes")
    for session, metadata in sessions.scan():
        is_taken = (
            isinstance(metadata, dict) and metadata.get("name") == name and not metadata.get("archived")
        )
        if is_taken and session.id != owner:
            raise NameTaken(name, session.id)


def first_meta(
    session_id: str, agent_name: str, command: list[str] | None, name: str | None, path: str, mode: str | None
) -> Meta:
    """Return the metadata of a session that is about to start for the first time."""
    now = timestamp()
    return {
        "id": session_id,
        "name": name,
        "title": None,
        "agent_name": agent_name,
        "command": command,
        "model": None,
        "mode": None,
        "options": {},
        "permissions": mode,
        "workspace_id": None,
        "workspace_path": path,
        "worktree": None,
        "place": None,
        "cwd": None,
        "state": "starting",
        "stop_reason": None,
        "stop_detail": None,
        "failure": None,
        "acp_session_id": None,
        "acp_session_ids": [],
        "acp_caps": None,
        "restore": None,
        "attach": None,
        "limits": None,
        "spent": None,
        "activity": None,
        "last_sequence": 0,
        "turns": 0,
        "keeper": None,
        "launch": None,
        "archived": False,
        "created_at": now,
        "updated_at": now,
    }


def ensure(name: str, **options: Any) -> tuple[Session, dict[str, Any] | None]:
    """Return the session, and its keeper's hello if it is new. `options` are for `create`."""
    while True:
        session = named(name)
        if session is None:
            try:
                return create(name=name, **options)
            except NameTaken:  # somebody was faster
                continue
        try:
            client.await_started(session)
            _check(name, meta.read(session), options.get("agent"), options.get("workspace"))
        except MetaInvalid:
            if os.path.isdir(session):
                raise
            continue  # it failed to start, and is gone
        if not meta.read(session).get("acp_session_id"):  # it has never come up
            ensure_live(session)
        return session, None


def named(name: str) -> Session | None:
    """Return the session in use that has this very name."""
    for session, metadata in sessions.scan():
        if (
            not isinstance(metadata, AghError)
            and metadata.get("name") == name
            and not metadata.get("archived")
        ):
            return session
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
