"""Making a session live: check it, repair it, and start its keeper.

Any number of commands at once give exactly one keeper: a command connects; if nobody answers it takes the
session's lock and starts a keeper that inherits it; if the lock is taken, it connects again. What can be
refused is refused before anything is changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import orjson

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
from agh.home import Session, open_private
from agh.keeper import client, spawn
from agh.keeper.client import CONNECT_LIMIT
from agh.store import lock as locks
from agh.store import meta
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.reader import Reader
from agh.store.watch import Watch

OnPermission = Callable[[Session, str], None]
children: list[int] = []  # keepers started by this process; one that outlives them waits for them


def ensure_live(
    session: Session, *, on_permission: OnPermission | None = None, **request: Any
) -> dict[str, Any]:
    """Make the session live and return its keeper's hello; `request` is for a start, if one is needed.

    `on_permission` gets the session and the id of each permission request that comes before it is live.
    """
    deadline = time.monotonic() + CONNECT_LIMIT
    with Watch() as watch:
        watch.add(session)
        while True:
            try:
                return client.call(session, "hello", limit=CONNECT_LIMIT) | {"started": False}
            except (KeeperGone, KeeperDied):
                pass
            except Relayed as error:
                if error.code not in ("session_starting", "session_stopping"):
                    raise
            lock = locks.take(session)
            if lock is not None:
                with lock:
                    return start(lock, on_permission=on_permission, **request) | {"started": True}
            if time.monotonic() > deadline:
                raise TimedOut(f"the keeper of {session.id}", CONNECT_LIMIT)
            watch.wait(0.2)


def start(lock: Lock, *, on_permission: OnPermission | None = None, **request: Any) -> dict[str, Any]:
    """Start the keeper of a session whose lock is held, and return its hello once it is ready.

    The process starts first, so that it imports what it needs while the session is checked and repaired here.
    It gets the lock only then; refused, it ends by itself.
    """
    metadata = meta.read(lock.session)
    module = keeper_module(metadata.get("kind"))
    log = open_private(os.path.join(lock.session, "keeper.log"), os.O_WRONLY | os.O_APPEND)
    try:
        process = spawn.take_or_start_keeper(module, lock.session, log)
        try:
            if not request.get("new"):
                request["remarks"] = prepare(lock, metadata, request.get("agent"))
            process = spawn.send_request(process, module, lock.fd, log, request)
        except BaseException:
            process.connection.close()
            raise
        finally:
            children.append(process.pid)
    finally:
        os.close(log)
    report: dict[str, Any] = {}
    for line in spawn.read_reports(process):
        report = orjson.loads(line)
        if "permission" in report and on_permission is not None:
            on_permission(lock.session, report["permission"])
    if not report.keys() & {"ok", "error"}:
        raise KeeperFailed(lock.session.id, _last_line(lock.session))
    if "error" in report:
        raise Relayed(report["error"])
    hello: dict[str, Any] = report["ok"]
    return hello


def prepare(lock: Lock, metadata: Meta, agent_name: str | None) -> list[str]:
    """Check that a session can be started, then repair it; return what had to be done to its worktree."""
    from agh.sessions.repair import ended_well, repair_locked

    check(metadata, lock.session)
    if not metadata.get("kind") and (agent_name is not None or not ended_well(metadata)):
        check_agent(metadata, agent_name)  # else the keeper does: it costs less there, and nothing is changed
    remarks = []
    if tree := metadata.get("worktree"):
        from agh.sessions import worktree

        remarks = worktree.restore(metadata["id"], tree) if worktree.is_ours(tree) else []
    if not os.path.isdir(metadata["workspace_path"]):
        raise WorkspaceGone(metadata["id"], metadata["workspace_path"])
    repair_locked(lock)
    return remarks


def check(metadata: Meta, session: Session) -> None:
    """Refuse a session that cannot be started, before anything is touched."""
    if metadata.get("archived"):
        raise SessionArchived(metadata["id"])
    if not metadata.get("worktree") and not os.path.isdir(metadata["workspace_path"]):
        raise WorkspaceGone(metadata["id"], metadata["workspace_path"])
    with Reader(session) as reader:
        if metadata.get("turns") and not reader.last_sequence():
            raise EventsEmpty(metadata["id"])


def check_agent(metadata: Meta, agent_name: str | None) -> None:
    """Refuse an agent that nobody knows, and settings that are wrong."""
    from agh import config
    from agh.keeper.agent.launch import agent_record

    command = metadata.get("command") if agent_name in (None, metadata["agent_name"]) else None
    agent_record(agent_name or metadata["agent_name"], command, metadata["workspace_path"])
    config.load(metadata["workspace_path"])


def keeper_module(kind: str | None) -> str:
    """Return the name of the module that keeps sessions of a kind."""
    if not kind:
        return spawn.DEFAULT_MODULE
    from agh.adapters import registry

    return registry.kind(kind).keeper


def _last_line(session: Session) -> str:
    with open(os.path.join(session, "keeper.log"), "rb") as file:
        lines = file.read()[-4000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
