"""Making a session live: check it, repair it, and start its keeper.

Any number of commands at once give exactly one keeper: a command connects; if nobody answers it takes the
session's lock and starts a keeper that inherits it; if the lock is taken, it connects again. What can be
refused is refused before anything is changed.
"""

from __future__ import annotations

import os
import time
from typing import Any

import orjson

from agh import config
from agh.errors import (
    EventsEmpty,
    KeeperDied,
    KeeperFailed,
    KeeperGone,
    Relayed,
    SessionArchived,
    TimedOut,
    WorkspaceGone,
)
from agh.home import open_private
from agh.keeper import client, spawn
from agh.keeper.client import CONNECT_LIMIT, read_line
from agh.store import lock, meta
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.reader import Reader
from agh.store.watch import Watch

children: list[int] = []  # keepers started by this process; one that outlives them waits for them


def ensure_live(directory: str, **request: Any) -> dict[str, Any]:
    """Make the session live and return its keeper's hello; `request` is for a start, if one is needed."""
    deadline = time.monotonic() + CONNECT_LIMIT
    with Watch() as watch:
        watch.add(directory)
        while True:
            try:
                return client.call(directory, "hello", limit=CONNECT_LIMIT) | {"started": False}
            except (KeeperGone, KeeperDied):
                pass
            except Relayed as error:
                if error.code not in ("session_starting", "session_stopping"):
                    raise
            held = lock.take(directory)
            if held is not None:
                with held:
                    return start(held, **request) | {"started": True}
            if time.monotonic() > deadline:
                raise TimedOut(f"the keeper of {os.path.basename(directory)}", CONNECT_LIMIT)
            watch.wait(0.2)


def start(held: Lock, **request: Any) -> dict[str, Any]:
    """Start the keeper of a session whose lock is held, and return its hello once it is ready.

    The process starts first, so that it imports what it needs while the session is checked and repaired here.
    It gets the lock only then; refused, it ends by itself.
    """
    stored = meta.read(held.directory)
    module = keeper_module(stored.get("kind"))
    log = open_private(os.path.join(held.directory, "keeper.log"), os.O_WRONLY | os.O_APPEND)
    try:
        process = spawn.take_or_start_keeper(module, held.directory, log)
        try:
            if not request.get("new"):
                request["remarks"] = prepare(held, stored, request.get("agent"))
            process = spawn.send_request(process, module, held.fd, log, request)
        except BaseException:
            process.connection.close()
            raise
    finally:
        os.close(log)
    children.append(process.pid)
    with process.connection:
        line = read_line(process.connection)
    if not line:
        raise KeeperFailed(os.path.basename(held.directory), _last_line(held.directory))
    report = orjson.loads(line)
    if "error" in report:
        raise Relayed(report["error"])
    hello: dict[str, Any] = report["ok"]
    return hello


def prepare(held: Lock, stored: Meta, agent_name: str | None) -> list[str]:
    """Check that a session can be started, then repair it; return what had to be done to its worktree."""
    from agh.sessions.repair import recover

    check(stored, held.directory, agent_name)
    remarks = []
    if tree := stored.get("worktree"):
        from agh.sessions import worktree

        remarks = worktree.mend(stored["id"], tree) if worktree.is_ours(tree) else []
    if not os.path.isdir(stored["workspace_path"]):
        raise WorkspaceGone(stored["id"], stored["workspace_path"])
    recover(held)
    return remarks


def check(stored: Meta, directory: str, agent_name: str | None) -> None:
    """Refuse a session that cannot be started, before anything is touched."""
    if stored.get("archived"):
        raise SessionArchived(stored["id"])
    if not stored.get("worktree") and not os.path.isdir(stored["workspace_path"]):
        raise WorkspaceGone(stored["id"], stored["workspace_path"])
    with Reader(directory) as reader:
        if stored.get("turns") and not reader.last_sequence():
            raise EventsEmpty(stored["id"])
    if not stored.get("kind"):
        from agh.keeper.agent.launch import agent_record

        command = stored.get("command") if agent_name in (None, stored["agent_name"]) else None
        agent_record(agent_name or stored["agent_name"], command, stored["workspace_path"])
    config.load(stored["workspace_path"])


def keeper_module(kind: str | None) -> str:
    """Return the name of the module that keeps sessions of a kind."""
    if not kind:
        return spawn.DEFAULT_MODULE
    from agh.adapters import registry

    return registry.kind(kind).keeper


def _last_line(directory: str) -> str:
    with open(os.path.join(directory, "keeper.log"), "rb") as file:
        lines = file.read()[-4000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
