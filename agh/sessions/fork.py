"""Starting a new session from the history of another, up to some event."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from agh.core.events import CHAT_TYPES, Draft, timestamp
from agh.errors import Usage
from agh.home import Session, new_session_id
from agh.sessions.new import check_name
from agh.sessions.start import check, check_agent, start
from agh.store import meta, sessions
from agh.store.create import create_session, publish
from agh.store.lock import Lock
from agh.store.reader import EVERYTHING, Reader
from agh.store.writer import Writer


def fork(
    session: Session,
    *,
    at: int | None = None,
    name: str | None = None,
    mcp_servers: Iterable[dict[str, Any]] = (),
) -> tuple[Session, dict[str, Any]]:
    """Copy the log up to `at` (default: all of it) and start a keeper on the copy.

    The agent forks its own session if it can, at the last message that is copied; else agh tells it the
    history. The `mcp_servers` of a client are for this start only.
    """
    origin = meta.read(session)
    if origin.get("kind"):
        hint = "name the session of a single agent: agh session list"
        raise Usage(f"a {origin['kind']} cannot be forked", hint=hint)
    if name is not None:
        check_name(name, sessions.workspaces(origin))
    check({**origin, "archived": False}, session)
    check_agent(origin, None)
    with Reader(session) as reader:
        last = reader.last_sequence()
        if at is not None and not 0 < at <= last:
            raise Usage(
                f"--at: {at} is not one of the events 1 to {last}",
                hint=f"agh session events {session.id} --last 5",
            )
        until = last if at is None else at
        message = None if until == last else _last_message(reader, until, origin.get("acp_session_id"))
        session_id = new_session_id()
        with create_session(session_id) as lock:
            turns = _copy(reader, lock, origin["agent_name"], until)
            now = timestamp()
            metadata: Any = {
                **origin,
                "id": session_id,
                "name": name,
                "state": "stopped",
                "stop_reason": "completed",
                "stop_detail": None,
                "failure": None,
                "attach": None,
                "activity": None,
                "keeper": None,
                "launch": None,
                "restore": None,
                "archived": False,
                "turns": turns,
                "last_sequence": until,
                "acp_session_id": None,  # it belongs to the origin: two sessions must not share it
                "acp_session_ids": [],
                "forked_from": {"session_id": origin["id"], "sequence": until},
                "created_at": now,
                "updated_at": now,
            }
            with sessions.lock_names(name) if name is not None else nullcontext():
                if name is not None:
                    check_name(name, sessions.workspaces(origin))
                publish(lock, metadata)
    with lock:
        agent_session = origin.get("acp_session_id") if until == last or message else None
        return lock.session, start(
            lock, fork=agent_session, fork_message=message, mcp_servers=list(mcp_servers)
        )


def _last_message(reader: Reader, until: int, agent_session: str | None) -> str | None:
    """Return the agent's id of the answer that the events up to here end with; None if they end elsewhere.

    An answer that continues after them, that shares its id with a later one, or that was given in another
    session of the agent's, is none.
    """
    sql = "SELECT type, content ->> '$.message_id', content ->> '$.session_id' FROM events "
    chat = f"type IN ({', '.join(repr(type) for type in CHAT_TYPES)})"
    before = reader.fetch(f"{sql} WHERE sequence <= ? AND {chat} ORDER BY sequence DESC LIMIT 1", [until])
    type, message, speaker = before[0] if before else (None, None, None)
    if type != "agent_message" or not message or speaker != agent_session:
        return None
    again = reader.fetch(
        "SELECT 1 FROM events WHERE sequence > ? AND type = 'agent_message' "
        "AND content ->> '$.message_id' = ? LIMIT 1",
        [until, message],
    )
    return None if again else str(message)


def _copy(reader: Reader, lock: Lock, agent_name: str, until: int) -> int:
    """Copy the rows up to `until`, under the names of their agents; return how many turns they have."""
    turns: set[str] = set()
    with Writer(lock, agent_name) as log:
        after = 0
        while rows := reader.page(EVERYTHING, after, until):
            turns |= {row.turn_id for row in rows}
            with log.transaction():
                for row in rows:
                    log.agent_name = row.agent_name
                    log.append([Draft(row.type, row.turn_id, row.content, row.timestamp)])
            after = rows[-1].sequence
    return len(turns - {""})
