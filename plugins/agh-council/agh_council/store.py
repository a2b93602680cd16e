"""A council's session on disk: made, read, and written to while nobody keeps it."""

from __future__ import annotations

import os
from typing import Any

from agh.core.events import draft
from agh.errors import SessionBusy
from agh.home import new_session_id
from agh.sessions.new import check_name, first_meta
from agh.store import lock, meta, sessions
from agh.store.lock import Lock
from agh.store.making import appear, making
from agh.store.reader import Reader
from agh.store.writer import Writer
from agh_council.errors import MemberUnknown, NoCouncil, NoGate, NotACouncil
from agh_council.plugin import KIND
from agh_council.state import Note, State, fold


def open_council(profile: dict[str, Any], brief: str, workspace: str, name: str | None) -> Lock:
    """The held lock of a new council: its first event is the profile and the brief."""
    if name is None:
        held = _make(profile, brief, workspace, name)
    else:
        with sessions.naming():
            check_name(name)
            held = _make(profile, brief, workspace, name)
    return held


def _make(profile: dict[str, Any], brief: str, workspace: str, name: str | None) -> Lock:
    session_id = new_session_id()
    opened = {"profile": profile, "brief": brief, "workspace": workspace}
    with making(session_id) as held:
        _append(held, [("opened", f"council {profile.get('name', KIND)}", opened)])
        made = first_meta(session_id, KIND, None, name, workspace, None)
        made["kind"], made["title"] = KIND, str(profile.get("name") or KIND)
        appear(held, made)
    return held


def read_state(directory: str) -> State:
    with Reader(directory) as reader:
        return fold(reader.rows(), os.path.basename(directory))


def find(reference: str) -> str:
    """The directory of the council that is meant; `@last` is the newest council of this workspace."""
    if reference != "@last":
        directory = sessions.resolve(reference)
        if meta.read(directory).get("kind") != KIND:
            raise NotACouncil(os.path.basename(directory))
        return directory
    here = os.path.realpath(sessions.here())
    found = [path for path, one in councils() if sessions.in_workspace(one, here)]
    if not found:
        raise NoCouncil()
    return found[-1]


def councils() -> list[tuple[str, meta.Meta]]:
    """Every council of this home, oldest first."""
    return [(path, one) for path, one in sessions.scan() if isinstance(one, dict) and one.get("kind") == KIND]


def steering(state: State, text: str, to: str | None) -> Note:
    """A note from the operator for the next round, to everyone or to one member alone."""
    known = [one.id for one in state.profile.perspectives]
    if to is not None and to not in known:
        raise MemberUnknown(state.session_id, to, ", ".join(known))
    given = {"id": f"steer-{state.sequence + 1}", "text": text, "to": to}
    return "steer", f"to {to or 'everyone'}: {text}", given


def decision(state: State, approved: bool, feedback: str) -> Note:
    """What a person has decided at the gate."""
    gate = state.waiting_gate
    if gate is None:
        raise NoGate(state.session_id)
    status = "approved" if approved else "rejected"
    title = f"after round {gate['round']}: {status}" + (f": {feedback}" if feedback else "")
    return "gate", title, {**gate, "status": status, "feedback": feedback}


def write_note(directory: str, make: Any) -> dict[str, Any]:
    """Append one event to the log of a council that nobody keeps; `make` is given its state."""
    held = lock.take(directory)
    if held is None:
        raise SessionBusy(os.path.basename(directory))
    with held:
        note: Note = make(read_state(directory))
        _append(held, [note])
    return note[2]


def _append(held: Lock, notes: list[Note]) -> None:
    drafts = [draft("system", action=action, title=title, council=given) for action, title, given in notes]
    with Writer(held, KIND) as writer:
        writer.append(drafts)
