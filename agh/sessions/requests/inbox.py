"""The inbox: everything in this home that waits for its user, oldest first.

Promises: it finds entries by the metadata and opens only the logs of sessions in which something waits. An
entry is named by a number that never means another entry, or by the request itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict
from zlib import crc32

from agh.core.events import timestamp
from agh.core.named_tuple import NamedTuple
from agh.core.parking import local_reset
from agh.core.status import LIVE_STATES, effective_meta
from agh.core.waiting import DISMISSIBLE, GATE_DETAIL, KINDS, count_waiting, mark_of
from agh.errors import AghError, InboxAmbiguous, InboxEntryUnknown, MetaInvalid
from agh.home import Session, is_session_id, session_of, sessions_path
from agh.sessions.requests.permissions import requests
from agh.sessions.requests.questions import questions
from agh.store import lock, meta, sessions
from agh.store.inbox import state
from agh.store.inbox.count import RECENT_DAYS, is_news
from agh.store.reader import Reader

_GATES = "SELECT max(sequence) FROM events WHERE type = 'system' AND content ->> '$.action' = 'gate'"


class Entry(TypedDict):
    """Something that waits. `request` is the permission or the question; `next` are the commands for it."""

    number: int | None
    key: str
    kind: str
    session_id: str
    name: str | None
    agent_name: str | None
    workspace_path: str | None
    since: str
    about: str
    details: list[str]
    request: dict[str, Any] | None
    next: list[str]


class Inbox:
    """Lists the entries, again and again. Of a session that has not changed since, nothing is read."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Known] = {}

    def entries(self) -> list[Entry]:
        """List the entries, oldest first, each with its number."""
        dismissed = state.read()["dismissed"]
        since = timestamp(datetime.now(UTC) - timedelta(days=RECENT_DAYS))
        entries: list[Entry] = []
        base, ids = sessions_path(), sessions.session_ids()
        self._sessions = {id: self._look(Session(id, f"{base}/{id}")) for id in ids}
        for known in self._sessions.values():
            is_new = not known.view or is_news(known.view, dismissed, since)
            entries += [entry for entry in known.entries if entry["kind"] not in DISMISSIBLE or is_new]
        entries.sort(key=lambda entry: entry["since"])  # stable: those of a session stay in their order
        _add_numbers(entries)
        return entries

    def _look(self, session: Session) -> _Known:
        known, stamp = self._sessions.get(session.id), _stamp(session)
        if known is None or stamp != known.stamp:
            return _read(session, stamp)
        is_same = not known.is_live or lock.is_held(session) == known.is_locked
        return known if is_same else _read(session, stamp)


class _Known(NamedTuple):
    """What a session's metadata said when it had this stamp. `view` is empty if nothing waits."""

    stamp: tuple[int, int] | None
    is_live: bool
    is_locked: bool
    view: dict[str, Any]
    entries: list[Entry]


def list_entries() -> list[Entry]:
    """List the entries, oldest first, each with its number."""
    return Inbox().entries()


def find_entry(reference: str) -> Entry:
    """Return the entry with this number, key or request id; raise if it does not wait any more."""
    key = state.key_of(int(reference)) if reference.isdecimal() else reference
    if key is None:
        raise InboxEntryUnknown(reference)
    session_id, slash, _ = key.partition("/")
    if slash and is_session_id(session_id):
        entries = _read(session_of(session_id)).entries
    else:
        entries = list_entries()
    matching = [entry for entry in entries if key in (entry["key"], entry["key"].partition("/")[2])]
    if not matching:
        raise InboxEntryUnknown(reference)
    if len(matching) > 1:
        raise InboxAmbiguous(reference, ", ".join(entry["key"] for entry in matching[:5]))
    _add_numbers(matching)
    return matching[0]


def dismiss(entries: Sequence[Entry]) -> list[Entry]:
    """Remember failures and limits as seen, and return them; entries of other kinds are left alone."""
    marks, dismissed = {}, []
    for entry in entries:
        if entry["kind"] in DISMISSIBLE:
            session = session_of(entry["session_id"])
            metadata = meta.read(session)
            is_locked = metadata.get("state") in LIVE_STATES and lock.is_held(session)
            marks[session.id] = mark_of(effective_meta(metadata, is_locked))
            dismissed.append(entry)
    if marks:
        state.dismiss(marks)
    return dismissed


def _add_numbers(entries: Sequence[Entry]) -> None:
    """Number the entries; a home that cannot be written leaves them without, and their keys still work."""
    try:
        numbers = state.number([entry["key"] for entry in entries])
    except (OSError, AghError):
        numbers = state.read()["numbers"]
    for entry in entries:
        entry["number"] = numbers.get(entry["key"])


def _stamp(session: Session) -> tuple[int, int] | None:
    """Return what changes whenever the metadata is replaced."""
    try:
        info = os.stat(f"{session.directory}/{meta.FILE}")
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ino


def _read(session: Session, stamp: tuple[int, int] | None = None) -> _Known:
    """Read the entries of a session; nothing if it is gone or its metadata is damaged."""
    try:
        metadata = meta.read(session)
    except MetaInvalid:
        return _Known(stamp, False, False, {}, [])
    is_live = metadata.get("state") in LIVE_STATES
    is_locked = is_live and lock.is_held(session)
    counts = count_waiting(metadata, is_locked)
    if not counts:
        return _Known(stamp, is_live, is_locked, {}, [])
    view = effective_meta(metadata, is_locked)
    try:
        entries = [entry for kind in KINDS if kind in counts for entry in _MAKERS[kind](session, view)]
    except AghError as error:  # a log that cannot be read hides nothing of the other sessions
        entries = [_damage(session, view, error)]
    return _Known(stamp, is_live, is_locked, view, entries)


def _damage(session: Session, view: Mapping[str, Any], error: AghError) -> Entry:
    answers = [f"agh session repair {session.id}"]
    return _entry(
        session, view, "damage", "damage", str(view.get("updated_at") or ""), error.message, [], answers
    )


def _permissions(session: Session, view: Mapping[str, Any]) -> Iterator[Entry]:
    for request in requests(session, everything=False):
        answers = ["agh inbox approve {}", "agh inbox deny {}"]
        about, *details = request["description"]
        yield _entry(
            session, view, "permission", request["request_id"], request["created_at"], about, details,
            answers, request,
        )  # fmt: skip


def _questions(session: Session, view: Mapping[str, Any]) -> Iterator[Entry]:
    for question in questions(session, everything=False):
        answers = ["agh inbox answer {} FIELD=VALUE", "agh inbox answer {} --decline"]
        about, *details = question["description"]
        yield _entry(
            session, view, "question", question["request_id"], question["created_at"], about, details,
            answers, question,
        )  # fmt: skip


def _gate(session: Session, view: Mapping[str, Any]) -> Iterator[Entry]:
    with Reader(session) as reader:
        ((sequence,),) = reader.fetch(_GATES)
    if sequence is not None:
        about = str(view["stop_detail"]).removeprefix(GATE_DETAIL)
        answers = ["agh inbox approve {}", "agh inbox deny {} --feedback TEXT"]
        yield _entry(
            session, view, "gate", f"gate-{sequence}", str(view.get("updated_at") or ""), about, [], answers
        )


def _login(session: Session, view: Mapping[str, Any]) -> Iterator[Entry]:
    agent = str(view.get("agent_name") or "")
    answers = [f"agh agent login {agent}", f"agh session resume {session.id}"]
    at = str((view.get("activity") or {}).get("last_activity_at") or view.get("updated_at") or "")
    yield _entry(session, view, "login", "login", at, f"{agent} needs a login", [], answers)


def _failure(session: Session, view: Mapping[str, Any]) -> Iterator[Entry]:
    failure = view.get("failure") or {}
    about = str(failure.get("summary") or view.get("stop_detail") or view.get("stop_reason") or "failed")
    bundle = failure.get("crash_bundle_path")
    details = [f"crash bundle: {bundle}"] if bundle else []
    answers = [f"agh session resume {session.id}", "agh inbox dismiss {}"]
    mark = crc32("\n".join(mark_of(view)).encode())  # another failure of the session is another entry
    yield _entry(
        session,
        view,
        "failure",
        f"failure-{mark:08x}",
        str(view.get("updated_at") or ""),
        about,
        details,
        answers,
    )


def _limited(session: Session, view: Mapping[str, Any]) -> Iterator[Entry]:
    limited = view.get("limited") or {}
    since = str(limited.get("since") or view.get("updated_at") or "")
    about = f"usage limit until {local_reset(view)}; the prompt waits in the queue"
    answers = [f"agh session wait {session.id}", f"agh session cancel {session.id}", "agh inbox dismiss {}"]
    if not view.get("keeper"):
        answers.insert(0, "agh session due --run")
    mark = crc32("\n".join(mark_of(view)).encode())
    yield _entry(session, view, "limited", f"limited-{mark:08x}", since, about, [], answers)


_MAKERS = {
    "permission": _permissions,
    "question": _questions,
    "gate": _gate,
    "login": _login,
    "limited": _limited,
    "failure": _failure,
}


def _entry(
    session: Session,
    view: Mapping[str, Any],
    kind: str,
    key: str,
    since: str,
    about: str,
    details: list[str],
    answers: list[str],
    request: dict[str, Any] | None = None,
) -> Entry:
    full_key = f"{session.id}/{key}"
    return {
        "number": None,
        "key": full_key,
        "kind": kind,
        "session_id": session.id,
        "name": view.get("name"),
        "agent_name": view.get("agent_name"),
        "workspace_path": view.get("workspace_path"),
        "since": since,
        "about": about,
        "details": details,
        "request": request,
        "next": [answer.format(full_key) for answer in answers],
    }
