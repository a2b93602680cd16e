"""The session of a council on disk: creating, finding and reading it, and writing to it without a keeper."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from agh.core.events import draft
from agh.errors import SessionBusy
from agh.home import Session, new_session_id
from agh.sessions.new import check_name
from agh.store import lock, meta, sessions
from agh.store.create import create_session, first_meta, publish
from agh.store.lock import Lock
from agh.store.reader import Reader
from agh.store.writer import Writer
from agh_council.errors import MemberUnknown, NoCouncil, NoGate, NotACouncil
from agh_council.fold import fold
from agh_council.plugin import KIND
from agh_council.state import CouncilEvent, State


def create_council(profile: dict[str, Any], brief: str, workspace: str, name: str | None) -> Lock:
    """Create a council's session and return its lock; its first event is the profile and the brief."""
    if name is None:
        return _create(profile, brief, workspace, name)
    with sessions.lock_names(name):
        check_name(name, [workspace])
        return _create(profile, brief, workspace, name)


def _create(profile: dict[str, Any], brief: str, workspace: str, name: str | None) -> Lock:
    session_id = new_session_id()
    payload = {"profile": profile, "brief": brief, "workspace": workspace}
    with create_session(session_id) as session_lock:
        title = f"council {profile.get('name', KIND)}"
        _append(session_lock, CouncilEvent("opened", title, payload))
        session_meta = first_meta(session_id, KIND, None, name, workspace, None)
        session_meta["kind"], session_meta["title"] = KIND, str(profile.get("name") or KIND)
        publish(session_lock, session_meta)
    return session_lock


def read_state(session: Session) -> State:
    with Reader(session) as reader:
        return fold(reader.rows(), session.id)


def find_council(reference: str) -> Session:
    """Return a council's session; `@last` is the newest one in this workspace."""
    if reference != "@last":
        session = sessions.resolve(reference)
        if meta.read(session).get("kind") != KIND:
            raise NotACouncil(session.id)
        return session
    workspace = os.path.realpath(sessions.working_directory())
    councils = [
        session for session, session_meta in list_councils() if sessions.in_workspace(session_meta, workspace)
    ]
    if not councils:
        raise NoCouncil()
    return councils[-1]


def list_councils() -> list[tuple[Session, meta.Meta]]:
    """Return the session and meta of every council in this home, oldest first."""
    return [
        (session, session_meta)
        for session, session_meta in sessions.scan()
        if isinstance(session_meta, dict) and session_meta.get("kind") == KIND
    ]


def steer_event(state: State, text: str, to: str | None) -> CouncilEvent:
    """Return the operator's note for the next round, to everyone or to one member."""
    ids = [member.id for member in state.profile.perspectives]
    if to is not None and to not in ids:
        raise MemberUnknown(state.session_id, to, ", ".join(ids))
    payload = {"id": f"steer-{state.sequence + 1}", "text": text, "to": to}
    return CouncilEvent("steer", f"to {to or 'everyone'}: {text}", payload)


def decide_gate(session: Session, approved: bool, feedback: str, sequence: int | None) -> dict[str, Any]:
    """Record the operator's decision at the gate where the council waits, and return its payload.

    The metadata then says that the gate is decided, so that it does not look as if it still waited.
    """
    return append_event(
        session,
        lambda state: decision_event(state, approved, feedback, sequence),
        lambda payload: {"stop_detail": f"gate {payload['status']}"},
    )


def decision_event(state: State, approved: bool, feedback: str, sequence: int | None = None) -> CouncilEvent:
    """Return the operator's decision at the gate where the council waits.

    With `sequence`, only at the gate that this event asked for.
    """
    gate = state.waiting_gate
    if gate is None or sequence not in (None, state.gate_sequence):
        raise NoGate(state.session_id)
    status = "approved" if approved else "rejected"
    title = f"after round {gate['round']}: {status}" + (f": {feedback}" if feedback else "")
    return CouncilEvent("gate", title, {**gate, "status": status, "feedback": feedback})


def append_event(
    session: Session,
    make_event: Callable[[State], CouncilEvent],
    changes: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Append an event to the log of a council without a keeper, and return its payload.

    `changes` returns what the metadata says after it.
    """
    session_lock = lock.take(session)
    if session_lock is None:
        raise SessionBusy(session.id)
    with session_lock:
        event = make_event(read_state(session))
        _append(session_lock, event)
        if changes is not None:
            metadata: Any = meta.read(session)
            meta.write(session, metadata | changes(event.payload))
    return event.payload


def _append(session_lock: Lock, event: CouncilEvent) -> None:
    drafts = [draft("system", action=event.action, title=event.title, council=event.payload)]
    with Writer(session_lock, KIND) as writer:
        writer.append(drafts)
