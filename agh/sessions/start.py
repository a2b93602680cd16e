"""Making a session live: check it, repair it, and start its keeper.

Any number of commands at once give exactly one keeper: a command connects; if nobody answers it takes the
session's lock and starts a keeper that inherits it; if the lock is taken, it connects again. What can be
refused is refused before anything is changed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import orjson

from agh.core.status import phase
from agh.errors import (
    CheckpointMissing,
    EventsEmpty,
    KeeperDied,
    KeeperFailed,
    KeeperGone,
    KeeperNotResponding,
    Relayed,
    SessionArchived,
    TimedOut,
    WorkspaceGone,
    WorkspaceUnresolved,
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

START_LIMIT = 120.0  # seconds for a keeper that reports nothing and does not respond
OnRequest = Callable[[Session, str], None]
children: list[int] = []  # keepers started by this process; one that outlives them waits for them


def ensure_live(
    session: Session,
    *,
    limit: float | None = None,
    on_request: OnRequest | None = None,
    waits_for_slot: bool = True,
    **request: Any,
) -> dict[str, Any]:
    """Make the session live and return its keeper's hello; `request` is for a start, if one is needed.

    Unless it `waits_for_slot`, it returns as soon as prompts are queued; the hello is then `queued`.
    `on_request` gets the session and the id of each request of the agent that comes before it is live.
    Raises KeeperNotResponding or TimedOut if that takes longer than `limit` seconds.
    """
    deadline = time.monotonic() + (limit or CONNECT_LIMIT)
    with Watch() as watch:
        watch.add(session)
        while True:
            try:
                remaining = max(0.1, deadline - time.monotonic())
                return client.call(session, "hello", limit=remaining) | {"started": False}
            except (KeeperGone, KeeperDied):
                pass
            except Relayed as error:
                if error.code not in ("session_starting", "session_stopping"):
                    raise
                if error.details.get("waits_for_slot"):
                    if not waits_for_slot:
                        return {"session_id": session.id, "queued": True, "started": False}
                    if limit is None:
                        deadline = time.monotonic() + CONNECT_LIMIT
            lock = locks.take(session)
            if lock is not None:
                with lock:
                    request["waits_for_slot"] = waits_for_slot
                    hello = start(lock, limit=limit, on_request=on_request, **request)
                    return hello | {"started": True}
            if time.monotonic() > deadline:
                raise KeeperNotResponding(session.id)
            watch.wait(0.2)


def start(
    lock: Lock,
    *,
    limit: float | None = None,
    on_request: OnRequest | None = None,
    waits_for_slot: bool = True,
    **request: Any,
) -> dict[str, Any]:
    """Start the keeper of a session whose lock is held, and return its hello once it is ready.

    The process starts first, so that it imports what it needs while the session is checked and repaired here.
    It gets the lock only then; refused, it ends by itself. After `limit` seconds it is left to itself. A slow
    start takes the time that its settings allow, but a keeper that does not even respond is killed.
    """
    metadata = meta.read(lock.session)
    module = keeper_module(metadata.get("kind"))
    report: dict[str, Any] = {}
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
        try:
            report = _read_report(process, limit, on_request, waits_for_slot)
        except spawn.RequestUnread:  # started ahead, it had no log to say why: the next one has
            process = spawn.start_keeper(module, lock.session, log)
            children.append(process.pid)
            process = spawn.send_request(process, module, lock.fd, log, request)
            with suppress(spawn.RequestUnread):
                report = _read_report(process, limit, on_request, waits_for_slot)
    finally:
        os.close(log)
    if not report:
        from agh.keeper.failures import explain_end, last_line

        reason = last_line(lock.session) or "keeper.log does not say why"
        raise explain_end(lock.session, KeeperFailed(lock.session.id, reason))
    if "error" in report:
        raise Relayed(report["error"])
    hello: dict[str, Any] = report["ok"]
    return hello


def _read_report(
    process: spawn.KeeperProcess, limit: float | None, on_request: OnRequest | None, waits_for_slot: bool
) -> dict[str, Any]:
    """Return how the start ended, ok or error, or nothing if the keeper died; pass on what the agent asks.

    Unless it `waits_for_slot`, the report that there is none yet counts as ok.
    """
    deadline = None if limit is None else time.monotonic() + limit
    received = bytearray()
    with closing(process.connection):
        while line := _read_line(process, received, limit, deadline):
            report: dict[str, Any] = orjson.loads(line)
            if report.keys() & {"ok", "error"}:
                return report
            if "queued" in report and not waits_for_slot:
                return {"ok": {**report["queued"], "queued": True}}
            if "request" in report and on_request is not None:
                on_request(process.session, report["request"])
    return {}


def _read_line(
    process: spawn.KeeperProcess, received: bytearray, limit: float | None, deadline: float | None
) -> bytes:
    """Return what the keeper reports next. Raise TimedOut after `limit` seconds; kill a stuck keeper."""
    while True:
        patience = time.monotonic() + START_LIMIT
        until = patience if deadline is None else min(patience, deadline)
        line = spawn.read_line(process, received, until)
        if line is not None:
            return line
        if limit is not None and until == deadline:
            raise TimedOut(f"session {process.session.id} to start", limit)
        if not client.responds(process.session):
            if not spawn.orphans:
                os.kill(process.pid, 9)  # our child, not waited for: the pid is still its own
            raise KeeperNotResponding(process.session.id)


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
    check_workspace(metadata)
    repair_locked(lock)
    return remarks


def check(metadata: Meta, session: Session) -> None:
    """Refuse a session that cannot be started, before anything is touched."""
    if metadata.get("archived"):
        raise SessionArchived(metadata["id"])
    if not metadata.get("worktree"):
        check_workspace(metadata)
    with Reader(session) as reader:
        if (metadata.get("turns") or metadata.get("last_sequence")) and not reader.last_sequence():
            raise EventsEmpty(metadata["id"])
    if phase(metadata) == "paused":
        from agh.store import checkpoint

        with suppress(CheckpointMissing):
            checkpoint.read(session)


def check_workspace(metadata: Meta) -> None:
    """Refuse a session whose workspace is gone, or is no directory that can be reached."""
    path = metadata["workspace_path"]
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise WorkspaceGone(f"session {metadata['id']}: its workspace {path}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WorkspaceUnresolved(metadata["id"], path, reason) from None
    if not is_directory:
        raise WorkspaceUnresolved(metadata["id"], path, "it is not a directory")


def check_agent(metadata: Meta, agent_name: str | None) -> None:
    """Refuse an agent that nobody knows, and settings that are wrong."""
    from agh import config
    from agh.keeper.agent.launch import agent_record, read_env_file

    command = metadata.get("command") if agent_name in (None, metadata["agent_name"]) else None
    agent_record(agent_name or metadata["agent_name"], command, metadata["workspace_path"])
    read_env_file(config.load(metadata["workspace_path"]))


def keeper_module(kind: str | None) -> str:
    """Return the name of the module that keeps sessions of a kind."""
    if not kind:
        return spawn.DEFAULT_MODULE
    from agh.adapters import registry

    return registry.kind(kind).keeper
