"""A keeper: the process that holds one live session. See entry.py for what it is given.

Its life is one story: recover, start the agent (`keep`), get the conversation back, open the socket, say that
it is ready (or why not), serve, drain, write the end (`live_on` in life.py, imported while the agent
starts). It is the only writer of the session's log. Killed at any point, it leaves a log that the next keeper
can go on with.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from agh import config
from agh.errors import AghError, EventsEmpty, SessionArchived, WorkspaceGone
from agh.keeper.agent.launch import agent_record, begin_agent
from agh.keeper.loop import Loop
from agh.keeper.process import Ready, log, run
from agh.keeper.session import Live
from agh.keeper.turns import usage
from agh.store import meta
from agh.store.lock import Lock
from agh.store.reader import Reader
from agh.store.writer import Writer

# A start that fails must leave these as they were.
WAY_BACK = (
    "agent_name",
    "command",
    "acp_session_id",
    "acp_session_ids",
    "inject_history",
    "limits",
    "mode",
    "model",
    "offers",
    "options",
    "system_prompt",
)


def keep(held: Lock, ready: Ready, intent: dict[str, Any]) -> None:
    """The story, up to an agent that is about to start."""
    stored = meta.read(held.directory)
    if intent.get("agent"):
        hand_over(stored, str(intent["agent"]))
    remarks = validate(stored, held.directory)
    record = agent_record(stored["agent_name"], stored.get("command"), stored["workspace_path"])
    settings = config.load(stored["workspace_path"])
    if not intent.get("new"):
        from agh.sessions.repair import recover

        recover(held)
    before = meta.read(held.directory)
    stored["limits"] = {**(stored.get("limits") or {}), **(intent.get("limits") or {})}
    stored = {**before, **{key: stored.get(key) for key in WAY_BACK}}  # type: ignore[typeddict-item]
    stored["spent"] = usage.spent(held.directory, stored.get("acp_session_id"))
    usage.refuse_spent(stored, record, settings)
    live = Live(Loop(), held.directory, stored, Writer(held, record.name), settings, record)
    live.way_back = {key: before.get(key) for key in WAY_BACK}
    if intent.get("fresh"):
        live.meta["acp_session_id"] = None
    trouble = None
    try:
        begin_agent(live)
    except AghError as error:
        trouble = error
    from agh.keeper.life import live_on  # it takes as long to import as an agent takes to start

    live_on(live, held, ready, intent, remarks, trouble)


def prepare() -> None:
    """What can be done before there is a session: import the rest of the story."""
    import_module("agh.keeper.life")


def validate(stored: meta.Meta, directory: str) -> list[str]:
    """Refuse before anything is touched, but make a lost worktree again; what was done, in words."""
    if stored.get("archived"):
        raise SessionArchived(stored["id"])
    remarks = []
    if tree := stored.get("worktree"):
        from agh.sessions import worktree

        remarks = worktree.mend(stored["id"], tree) if worktree.is_ours(tree) else []
    for remark in remarks:
        log(remark)
    if not os.path.isdir(stored["workspace_path"]):
        raise WorkspaceGone(stored["id"], stored["workspace_path"])
    with Reader(directory) as reader:
        if stored.get("turns") and not reader.last_sequence():
            raise EventsEmpty(stored["id"])
    return remarks


def hand_over(stored: meta.Meta, agent_name: str) -> None:
    """Give the session to another agent: it has no memory of it, and its own models and modes."""
    if agent_name != stored["agent_name"]:
        stored["agent_name"], stored["command"], stored["acp_session_id"] = agent_name, None, None
        stored["model"], stored["mode"], stored["options"], stored["offers"] = None, None, {}, {}


if __name__ == "__main__":
    run(keep, prepare)
