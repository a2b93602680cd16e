"""Creating a session: its directory, its metadata and its empty log, then its first keeper."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from agh import config
from agh.adapters import registry
from agh.config import PERMISSION_MODES
from agh.core.status import derive_workspace_id
from agh.errors import AghError, MetaInvalid, NameMismatch, NameTaken, Usage, WorkspaceGone
from agh.home import Session, home_path
from agh.keeper import client
from agh.keeper.spawn import next_id
from agh.sessions import worktree
from agh.sessions.start import OnRequest, ensure_live, start
from agh.store import lock as locks
from agh.store import meta, sessions, workspaces
from agh.store.create import create_session, first_meta, publish
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.views import update_metadata

END_LIMIT = 30.0  # seconds for a keeper that could not start to be gone


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
    directories: Iterable[str] = (),
    rules: list[dict[str, str]] | None = None,
    allow_self_answers: bool = False,
    mcp_servers: Iterable[dict[str, Any]] = (),
    keep_mcp_servers: bool = False,
    on_request: OnRequest | None = None,
    waits_for_slot: bool = True,
    replace: bool = False,
    discard: bool = False,
    announce: Callable[[Meta, bool], None] = lambda metadata, is_default: None,
    check: Callable[[Session], None] | None = None,
    session_id: str | None = None,
) -> tuple[Session, dict[str, Any]]:
    """Create a live session; return it and its keeper's hello. Bad input leaves nothing behind.

    `on` is the place where the agent runs. With a `branch` (empty: a new one) it has its own worktree. It may
    work in the `directories`, too. The `mcp_servers` of a client are for this start only, because they may
    hold tokens; `keep_mcp_servers` stores them. Unless it `waits_for_slot`, a session whose agent has no slot
    in its place yet is returned while it is starting; its hello is then `queued`. With `replace`, a stopped
    session that has the name is archived. `discard` leaves nothing behind either if the agent does not start.
    `announce` is called before the agent is started, with whether it is the default; `check` when it has said
    what it can do: if it raises, the session is deleted again. A caller may bring the `session_id`.
    """
    try:
        registered = workspaces.find_existing(workspace or os.getcwd())
    except FileNotFoundError:
        raise WorkspaceGone("the working directory", hint="cd to another directory") from None
    path = registered.path
    if not os.path.isdir(path):
        raise WorkspaceGone(path, hint="name a directory with --workspace")
    if permissions is not None:
        check_mode(permissions)
    additional = [check_directory(directory, on) for directory in directories]
    with _branched(path, branch, name, replace=replace) as (tree, path):
        settings = config.load(path)
        if command:
            agent_name = agent or os.path.basename(command[0])
        else:
            agent_name = registry.default_agent(agent or settings["agent"], path).name
        if settings["env.file"]:
            from agh.adapters import env_file  # few have one

            env_file.read(settings["env.file"])
        if on:
            check_place(on, agent_name, command, path, settings)
        session_id = session_id or next_id()
        paths = [path, registered.path]
        with _named(name, paths, replace=replace) as replaced, create_session(session_id) as lock:
            metadata = first_meta(session_id, agent_name, command, name, path, permissions)
            metadata["place"], metadata["worktree"] = on, tree
            metadata["workspace_id"] = registered.id or derive_workspace_id(registered.path)
            metadata["system_prompt"], metadata["allowed_tools"] = system_prompt, allowed_tools or []
            metadata["additional_directories"] = list(dict.fromkeys(additional))
            metadata["limits"] = limits or None
            metadata["permission_rules"] = rules or []
            metadata["allow_self_answers"] = allow_self_answers
            metadata["mcp_servers"] = [*settings["mcp_servers"], *(mcp_servers if keep_mcp_servers else ())]
            for key, value in (options or {}).items():
                meta.choose(metadata, key, value)
            with _archived(replaced):
                publish(lock, metadata)
        with lock:
            announce(metadata, not (command or agent or settings["agent"]))
            passing: dict[str, Any] = {"waits_for_slot": waits_for_slot}
            if mcp_servers and not keep_mcp_servers:
                passing["mcp_servers"] = list(mcp_servers)
            hello = _first_start(lock, replaced, on_request, discard=discard, **passing)
        if check is not None:
            _check_started(lock.session, replaced, check)
        return lock.session, hello


@contextmanager
def _branched(
    path: str, branch: str | None, name: str | None, *, replace: bool
) -> Iterator[tuple[worktree.Tree | None, str]]:
    """Create the worktree if a branch is named, and remove it again if creating the session fails."""
    if branch is None:
        yield None, path
        return
    with _named(name, [path], replace=replace):
        pass  # refuse a name that is taken before anything is checked out
    tree, inner = worktree.add(path, branch, name, config.load(path)["session.worktrees"])
    try:
        yield tree, inner
    except BaseException:
        if not worktree.users_of(tree["path"], sessions.read_metadata()):
            worktree.discard(tree)
        raise


def check_place(
    place: str, agent_name: str, command: list[str] | None, path: str, settings: dict[str, Any]
) -> None:
    """Refuse a place that nobody knows, or whose options make no sense. It need not be reachable."""
    from agh.keeper.agent.launch import agent_record, prepare

    prepare(agent_record(agent_name, command, path), path, settings, place=place)


def check_directory(directory: str, place: str | None) -> str:
    """Return the real path of a directory that the agent works in beside its workspace."""
    if place:
        raise Usage(
            f"--add-dir: an agent in {place} sees only its workspace", hint="leave out --add-dir or --on"
        )
    path = os.path.realpath(os.path.expanduser(directory)) if directory and "\0" not in directory else ""
    if not os.path.isdir(path):
        raise Usage(f"--add-dir: {directory!r} is not a directory", hint="name one that exists")
    if f"{path}/".startswith(f"{os.path.realpath(home_path())}/"):
        raise Usage(f"--add-dir: {directory!r} belongs to agh itself", hint="name another directory")
    return path


def check_mode(mode: str) -> str:
    """Return a permission mode if it is one."""
    if mode not in PERMISSION_MODES:
        raise Usage(f"permissions: {mode!r} is not one of {', '.join(PERMISSION_MODES)}")
    return mode


@contextmanager
def _named(name: str | None, paths: Iterable[str], *, replace: bool) -> Iterator[Session | None]:
    """Check a name, and keep others from taking it inside the block; yield the session to archive for it."""
    if name is None:
        yield None
        return
    with sessions.lock_names(name):
        owner = None
        try:
            check_name(name, paths)
        except NameTaken as error:
            owner = sessions.name_owner(name, paths)
            is_live = owner is not None and locks.is_held(owner)
            if is_live or not replace:
                raise NameTaken(*error.args, hint=_how_to_go_on(name, is_live=is_live)) from None
        yield owner


def _how_to_go_on(name: str, *, is_live: bool) -> str:
    quoted = shlex.quote(name)
    end = f"agh stop {quoted}, then --replace" if is_live else "--replace"
    return f"continue it with agh prompt {quoted} TEXT or agh attach {quoted}; start over with {end}"


@contextmanager
def _archived(session: Session | None) -> Iterator[None]:
    """Archive a session whose name is about to be taken; bring it back if the block fails.

    It comes first: whenever this is killed, no two sessions in use have the name.
    """
    if session is None:
        yield
        return
    update_metadata(session, archived=True)
    try:
        yield
    except BaseException:
        update_metadata(session, archived=False)
        raise


def _first_start(
    lock: Lock, replaced: Session | None, on_request: OnRequest | None, *, discard: bool, **request: Any
) -> dict[str, Any]:
    """Start the keeper of a new session; if that fails, remove the session if nobody has any use for it.

    That is so if its options were at fault, with `discard`, and if it took the name of another, which then
    has its name back.
    """
    try:
        return start(lock, on_request=on_request, new=True, **request)
    except AghError as error:
        if error.exit == Usage.exit or discard or replaced:
            import shutil

            lock.release()
            client.await_end(lock.session, END_LIMIT)
            shutil.rmtree(lock.session)
        _give_back(replaced)
        raise


def _check_started(session: Session, replaced: Session | None, check: Callable[[Session], None]) -> None:
    """Delete a session that its caller cannot use after all."""
    try:
        check(session)
    except BaseException:
        from agh.sessions.delete import delete
        from agh.sessions.stop import stop_session

        stop_session(session, kill=True)
        delete(session)
        _give_back(replaced)
        raise


def _give_back(replaced: Session | None) -> None:
    """Bring back a session whose name was taken in vain."""
    if replaced:
        with suppress(AghError):
            metadata = meta.read(replaced)
            name = str(metadata.get("name"))
            with sessions.lock_names(name):
                check_name(name, sessions.workspaces(metadata))
                update_metadata(replaced, archived=False)


def check_name(name: str, paths: Iterable[str], owner: Session | None = None) -> None:
    """Refuse a name that looks like an id, or that a session other than `owner` has in these workspaces."""
    if not name or name.startswith(("sess-", "@", "-")) or not name.isprintable() or len(name) > 100:
        hint = "use 1 to 100 printable characters; do not start with sess-, @ or -"
        raise Usage(f"{name!r} is not a valid session name", hint=hint)
    session = sessions.name_owner(name, paths)
    if session is not None and session != owner:
        raise NameTaken(name, session.id)


def ensure(name: str, **options: Any) -> tuple[Session, dict[str, Any] | None]:
    """Return the session, and its keeper's hello if it is new. `options` are for `create`."""
    while True:
        session = sessions.named_here(name, workspaces.find_existing(options.get("workspace")).path)
        if session is None:
            try:
                return create(name=name, **options)
            except NameTaken:  # somebody was faster
                continue
        try:
            client.await_started(session)
            _check_agent(name, meta.read(session), options.get("agent"))
        except MetaInvalid:
            if os.path.isdir(session):
                raise
            continue  # it failed to start, and is gone
        if not meta.read(session).get("acp_session_id"):  # it has never come up
            ensure_live(session)
        return session, None


def _check_agent(name: str, metadata: meta.Meta, agent: str | None) -> None:
    """Refuse a session that has the name but another agent than the one that was asked for."""
    if agent and agent != metadata["agent_name"]:
        hint = f"agh session resume {shlex.quote(name)} --agent {agent}"
        raise NameMismatch(name, metadata["id"], f"runs {metadata['agent_name']}", hint=hint)
