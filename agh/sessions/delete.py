"""Removing sessions for good: the directory, the crash bundles, and the agent's own copy where it can."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from agh import config
from agh.adapters.restore import has_capability
from agh.errors import AghError, MetaInvalid, SessionLive
from agh.home import home_path
from agh.keeper.agent.connection import Agent, RpcError
from agh.keeper.agent.launch import agent_record, client_info, prepare
from agh.keeper.leash.leftovers import end_leftovers
from agh.keeper.loop import Loop
from agh.sessions import worktree
from agh.sessions.probe import refuse_requests
from agh.store import lock, meta, sessions

DELETE_LIMIT = 20.0


def remove(directory: str, *, agent_session: bool = True) -> list[str]:
    """Remove a session that is not live; what could not be removed, in words."""
    session_id = os.path.basename(directory)
    held = lock.take(directory)
    if held is None:
        raise SessionLive(session_id)
    kept: list[str] = []
    with held:
        with suppress(MetaInvalid):
            end_leftovers(meta.read(directory))
        if agent_session:
            kept += _forget(directory)
        for path in _bundles(session_id):
            os.unlink(path)
        kept += _release(directory)
        # Renamed first: a half-removed session must not look like a damaged one.
        doomed = os.path.join(os.path.dirname(directory), f".removed-{session_id}")
        os.rename(directory, doomed)
        if os.path.islink(doomed):  # what it leads to is not ours
            os.unlink(doomed)
        else:
            shutil.rmtree(doomed)
    return kept


def _release(directory: str) -> list[str]:
    """Remove the session's worktree unless something would be lost; what was kept, in words."""
    try:
        tree = meta.read(directory).get("worktree")
    except MetaInvalid:
        return []
    if not worktree.is_ours(tree):
        return []
    others = (one for one in sessions.readable() if one["id"] != os.path.basename(directory))
    return worktree.release(tree, worktree.users_of(tree["path"], others))


def _forget(directory: str) -> list[str]:
    """Ask the agent to delete its own session, if it said that it can."""
    try:
        stored = meta.read(directory)
        tokens, workspace = stored.get("acp_session_ids") or [], stored["workspace_path"]
        if (
            not tokens
            or not has_capability(stored.get("acp_caps") or {}, "delete")
            or not os.path.isdir(workspace)
        ):
            return []
        record = agent_record(stored["agent_name"], stored.get("command"), workspace)
        settings = config.load(workspace)
        limit = min(DELETE_LIMIT, settings["timeouts.initialize"])
        launch = prepare(record, workspace, settings, place=stored.get("place"), session_id=stored["id"])
        agent = Agent(Loop(), launch, refuse_requests)
    except MetaInvalid:
        return []
    except AghError as error:
        return [f"the agent's own session: {error.message}"]
    try:
        agent.call("initialize", client_info(launch.elsewhere), limit)
        return [said for token in tokens if (said := _delete(agent, token, limit))]
    except AghError as error:
        return [f"the agent's own copy of the conversation: {error.message}"]
    finally:
        agent.process.end(eof=1.0, term=1.0)


def _delete(agent: Agent, token: str, limit: float) -> str | None:
    """What went wrong, in words; one that fails does not keep the others."""
    try:
        agent.call("session/delete", {"sessionId": token}, limit)
    except RpcError as error:
        return f"the agent's own copy of the conversation, {token}: {error.message}"
    return None


def _bundles(session_id: str) -> list[str]:
    folder = os.path.join(home_path(), "logs", "crash-bundles")
    try:
        return [
            os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(f"{session_id}-")
        ]
    except OSError:
        return []
