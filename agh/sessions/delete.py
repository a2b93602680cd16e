"""Deleting sessions for good: the directory, the crash bundles, the agent's own copy if it can."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from agh import config
from agh.adapters.restore import has_capability
from agh.errors import AghError, MetaInvalid, SessionLive
from agh.home import Session, home_path
from agh.keeper.agent.connection import Agent, RpcError
from agh.keeper.agent.launch import agent_record, client_info, prepare
from agh.keeper.leash.leftovers import end_leftovers
from agh.keeper.loop import Loop
from agh.sessions import worktree
from agh.sessions.agent.probe import refuse_requests
from agh.store import lock as locks
from agh.store import meta, sessions

DELETE_LIMIT = 20.0


def delete(session: Session, *, agent_session: bool = True) -> list[str]:
    """Delete a session that is not live; return what could not be deleted, in sentences."""
    session_id = session.id
    lock = locks.take(session)
    if lock is None:
        raise SessionLive(session_id)
    not_removed: list[str] = []
    with lock:
        with suppress(MetaInvalid):
            end_leftovers(meta.read(session))
        if agent_session:
            not_removed += _forget(session)
        for path in _bundles(session_id):
            os.unlink(path)
        not_removed += _release(session)
        # Renamed first: a half-deleted session must not look like a damaged one.
        doomed = os.path.join(os.path.dirname(session), f".removed-{session_id}")
        os.rename(session, doomed)
        if os.path.islink(doomed):  # what it leads to is not ours
            os.unlink(doomed)
        else:
            shutil.rmtree(doomed)
    return not_removed


def _release(session: Session) -> list[str]:
    """Delete the session's worktree unless something would be lost; return what stays, in sentences."""
    try:
        tree = meta.read(session).get("worktree")
    except MetaInvalid:
        return []
    if not worktree.is_ours(tree):
        return []
    others = (metadata for metadata in sessions.read_metadata() if metadata["id"] != session.id)
    return worktree.release(tree, worktree.users_of(tree["path"], others))


def _forget(session: Session) -> list[str]:
    """Ask the agent to delete its own sessions, if it can; return what went wrong."""
    try:
        metadata = meta.read(session)
        if metadata.get("mirror"):
            return [f"the original session on {metadata['place']}; run agh session delete there"]
        agent_sessions, workspace = metadata.get("acp_session_ids") or [], metadata["workspace_path"]
        if (
            not agent_sessions
            or not has_capability(metadata.get("acp_caps") or {}, "delete")
            or not os.path.isdir(workspace)
        ):
            return []
        record = agent_record(metadata["agent_name"], metadata.get("command"), workspace)
        settings = config.load(workspace)
        limit = min(DELETE_LIMIT, settings["timeouts.initialize"])
        launch = prepare(record, workspace, settings, place=metadata.get("place"), session_id=metadata["id"])
        agent = Agent(Loop(), launch, refuse_requests)
    except MetaInvalid:
        return []
    except AghError as error:
        return [f"the agent's own copy of the conversation: {error.message}"]
    try:
        agent.call("initialize", client_info(launch.elsewhere), limit)
        return list(filter(None, (_delete(agent, name, limit) for name in agent_sessions)))
    except AghError as error:
        return [f"the agent's own copy of the conversation: {error.message}"]
    finally:
        agent.process.end(eof=1.0, term=1.0)


def _delete(agent: Agent, agent_session: str, limit: float) -> str | None:
    """Ask the agent to delete one of its sessions; return what went wrong, if anything."""
    try:
        agent.call("session/delete", {"sessionId": agent_session}, limit)
    except RpcError as error:
        return f"the agent's own copy of the conversation, {agent_session}: {error.message}"
    return None


def _bundles(session_id: str) -> list[str]:
    folder = os.path.join(home_path(), "logs", "crash-bundles")
    try:
        return [
            os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(f"{session_id}-")
        ]
    except OSError:
        return []
