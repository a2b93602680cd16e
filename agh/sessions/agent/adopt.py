"""Adopting the sessions that an agent has already: those it made without agh.

Promises: nothing is written before the agent has said that it can replay them and has what was asked for; a
session appears when its replay is complete, or not at all; a conversation that is here already stays as it
is. No prompt is sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from agh import config
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.adapters.restore import METHOD_NOT_FOUND, has_capability, with_forced
from agh.core.acp.frames import Frame, Malformed, Notification, Request, Response
from agh.core.acp.replay import Replay
from agh.core.acp.updates import update_text
from agh.core.events import timestamp
from agh.core.exchange import Record
from agh.core.prompt import title_of
from agh.errors import AghError, LoadNotOffered, SessionExists
from agh.home import Session, session_id_of, session_of
from agh.keeper.agent.connection import Agent, RpcError
from agh.sessions.agent.greet import Greeted, greet
from agh.sessions.agent.own_sessions import OwnSession, choose, list_sessions, log_in_or_raise
from agh.sessions.build import build
from agh.sessions.import_ import Outcome, index_home

QUIET_LIMIT = 5.0  # seconds
CLOSE_LIMIT = 10.0  # seconds
LOADS = 10  # by one agent process if it cannot close a session again
PAGE = 1_000  # frames that are taken together


class _NothingSaid(Exception):
    """A replay without a message."""


def list_own(name: str | None, cwd: str, *, everywhere: bool = False) -> list[dict[str, Any]]:
    """Return the sessions that an agent lists for a directory, each with our session of it, if any."""
    settings, record = _load_agent(name, cwd)
    with greet(record, cwd, settings) as greeted:
        own_sessions = list_sessions(greeted, None if everywhere else cwd)
    here = index_home().agent_sessions
    return [
        {
            "id": own.id,
            "title": own.title,
            "cwd": own.cwd,
            "updated_at": own.updated_at,
            "session_id": here[own.id].id if own.id in here else None,
        }
        for own in own_sessions
    ]


def adopt(
    name: str | None, cwd: str, ids: Sequence[str] = (), *, everywhere: bool = False
) -> Iterator[Outcome]:
    """Adopt the named sessions of an agent, or all that it lists; yield what became of each.

    An error of the agent in the replay of one session is part of its outcome, and does not stop the others.
    """
    settings, record = _load_agent(name, cwd)
    here = index_home().agent_sessions
    named = [OwnSession(own_id, None, cwd, None) for own_id in dict.fromkeys(ids) if own_id in here]
    unknown = [own_id for own_id in ids if own_id not in here]
    missing: list[OwnSession] | None = None
    while missing is None or missing:
        frames: list[Frame] = []
        with greet(record, cwd, settings, lambda agent, batch: _take(agent, batch, frames)) as greeted:  # noqa: B023
            if missing is None:
                _check_load(greeted)
                offered = choose(greeted, cwd, unknown, everywhere=everywhere) if unknown or not ids else []
                missing = [own for own in offered if own.id not in here]
                for own in (*named, *offered):
                    if own.id in here:
                        yield _outcome(own, here[own.id], "unchanged", 0, "already here")
                if not all(own.is_listed for own in missing):
                    continue  # what was loaded to look at it may still be coming: start another process
            loads = len(missing) if has_capability(greeted.capabilities, "close") else LOADS
            for number in range(loads):
                if not missing or (number and greeted.agent.process.over):
                    break
                yield _Load(greeted, frames, missing.pop(0)).adopt()


def _load_agent(name: str | None, cwd: str) -> tuple[dict[str, Any], AgentRecord]:
    settings = config.load(cwd)
    return settings, registry.default_agent(name or settings["agent"], cwd)


def _check_load(greeted: Greeted) -> None:
    record = greeted.launch.agent
    caps = with_forced(greeted.capabilities, record.restore_force)
    if not caps["loadSession"] or "native_load" in record.restore_skip:
        raise LoadNotOffered(record.name)


def _take(agent: Agent, batch: list[Frame], frames: list[Frame]) -> None:
    """Deliver answers, refuse requests, and keep the rest for the session that is being loaded."""
    for frame in batch:
        if isinstance(frame, Response):
            agent.deliver(frame)
        elif isinstance(frame, Request):
            agent.refuse(frame.id, METHOD_NOT_FOUND, "the session is only being replayed")
        else:
            frames.append(frame)


class _Load:
    """One session of an agent, being replayed and written."""

    def __init__(self, greeted: Greeted, frames: list[Frame], own: OwnSession) -> None:
        self._greeted, self._frames, self._own = greeted, frames, own
        self._agent_name = greeted.launch.agent.name
        self._at = own.updated_at or timestamp()
        self._replay = Replay(self._agent_name, own.id, self._at)
        self._description: dict[str, Any] = {
            "agent_name": self._agent_name,
            "title": own.title,
            "workspace_path": own.cwd,
            "acp_session_id": own.id,
            "acp_session_ids": [own.id],
            "imported": {"from": "agent", "agent": self._agent_name, "at": timestamp()},
            "stop_reason": "completed",
            "created_at": self._at,
            "updated_at": self._at,
        }

    def adopt(self) -> Outcome:
        """Write the session and return what became of it."""
        noise = sha256(f"{self._agent_name}\0{self._own.id}".encode()).digest()
        milliseconds = int(datetime.fromisoformat(self._at).timestamp() * 1000)
        target = session_of(session_id_of(milliseconds, noise))
        try:
            events = build(target, self._description, self._records(), lambda: self._find() is not None)
        except _NothingSaid:
            return _outcome(self._own, None, "skipped", 0, "it has no messages")
        except SessionExists:  # another import was quicker
            return _outcome(self._own, self._find() or target, "unchanged", 0, "already here")
        except AghError as error:
            return _outcome(self._own, None, "failed", 0) | {"error": error}
        finally:
            self._close()
        return _outcome(self._own, target, "imported", events)

    def _find(self) -> Session | None:
        return index_home().agent_sessions.get(self._own.id)

    def _records(self) -> Iterator[Record]:
        """Load the session and yield its records as they come; complete the description at the end."""
        self._frames.clear()
        try:
            yield from self._load()
        except RpcError as error:
            log_in_or_raise(self._greeted, error)
            yield from self._load()
        yield from self._await_quiet()
        yield from self._replay.finish()
        if not self._replay.messages:
            raise _NothingSaid
        redactor = self._greeted.agent.redactor
        first = title_of(self._replay.first_prompt, redactor)
        self._description["title"] = self._description["title"] or self._replay.title or first

    def _load(self) -> Iterator[Record]:
        agent, loop = self._greeted.agent, self._greeted.loop
        params = {"sessionId": self._own.id, "cwd": self._own.cwd, "mcpServers": []}
        answers: list[Response | AghError] = []
        agent.request("session/load", params, answers.append, self._greeted.settings["timeouts.load"])
        while not answers:
            loop.run_until(lambda: bool(answers) or len(self._frames) >= PAGE)
            yield from self._take_frames()
        agent.result_of(answers[0])

    def _await_quiet(self) -> Iterator[Record]:
        """Yield what comes after the answer, until nothing has come for a moment: some agents replay late."""
        loop, pause = self._greeted.loop, self._greeted.launch.agent.quiet_after_load
        deadline = time.monotonic() + QUIET_LIMIT
        while loop.run_until(lambda: bool(self._frames), pause) and time.monotonic() < deadline:
            yield from self._take_frames()

    def _take_frames(self) -> Iterator[Record]:
        """Yield the records of the frames that have come; those of other sessions are left out."""
        frames = self._frames[:]
        self._frames.clear()
        for frame in frames:
            if isinstance(frame, Malformed):
                yield self._replay.warn(f"the agent sent a line that is not an ACP message: {frame.reason}")
            elif isinstance(frame, Notification) and frame.method == "session/update":
                params = frame.params if isinstance(frame.params, dict) else {}
                update = params.get("update")
                if isinstance(update, dict) and params.get("sessionId") == self._own.id:
                    raw = frame.raw if frame.sanitized else update_text(frame.raw, update)
                    yield from self._replay.add(update, raw)

    def _close(self) -> None:
        """Let the agent forget the session, so that a hundred of them do not fill its memory."""
        if has_capability(self._greeted.capabilities, "close") and not self._greeted.agent.process.over:
            try:
                self._greeted.agent.call("session/close", {"sessionId": self._own.id}, CLOSE_LIMIT)
            except AghError:
                pass


def _outcome(
    own: OwnSession, session: Session | None, status: str, events: int, reason: str | None = None
) -> Outcome:
    return {
        "agent_session": own.id,
        "title": own.title,
        "session_id": session.id if session else None,
        "status": status,
        "events": events,
        "reason": reason,
    }
