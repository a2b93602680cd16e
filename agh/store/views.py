"""Views of sessions, as commands print them and a server returns them. Only `owned_update` writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agh.core import status
from agh.core.events import timestamp
from agh.core.transcript import Message, transcript
from agh.errors import KeeperNotResponding, MetaInvalid, SessionBusy
from agh.store import lock as locks
from agh.store import meta, milestones, sessions
from agh.store.reader import Reader

if TYPE_CHECKING:
    from agh.core.redact import Redactor

View = dict[str, Any]


def session_view(directory: str) -> View:
    """Return a session's metadata with its derived fields; a vanished keeper shows in the state."""
    return _view(directory, meta.read(directory), timestamp())


def list_views(keep: Callable[[View], bool] = lambda view: True) -> list[View]:
    """List the sessions that `keep` accepts, newest activity first. Unreadable ones are included."""
    now = timestamp()
    views = []
    for directory, metadata in sessions.scan():
        if isinstance(metadata, MetaInvalid):
            view = _damaged_view(directory, metadata)
        else:
            view = _view(directory, metadata, now)
        if keep(view):
            views.append(view)
    views.sort(key=lambda view: (view.get("updated_at") or "", view["id"]), reverse=True)
    return views


def status_view(directory: str, answers: Callable[[str], bool]) -> View:
    """Return a session's view with the answer to "should it be resumed?". `answers` asks the keeper."""
    metadata = meta.read(directory)
    is_locked = locks.is_held(directory)
    view = status.view(metadata, is_locked, timestamp())
    try:
        is_answering = is_locked and answers(directory)
    except KeeperNotResponding:
        is_answering = False
        view |= status.NOT_RESPONDING
    return view | status.recovery(view, is_locked, is_answering)


def stop_notice(directory: str) -> dict[str, Any]:
    """Return the synthetic last object of a stream, which says how the session ended."""
    view = session_view(directory)
    return {
        "id": f"session-stopped-{view['id']}",
        "session_id": view["id"],
        "type": "session_stopped",
        "stop_reason": view.get("stop_reason"),
        "failure": view.get("failure"),
        "timestamp": view.get("updated_at"),
    }


def owned_update(directory: str, **changes: Any) -> None:
    """Change the metadata of a session that is not live. Raise SessionBusy if it is locked."""
    lock = locks.take(directory)
    if lock is None:
        raise SessionBusy(os.path.basename(directory))
    with lock:
        metadata: Any = meta.read(directory)
        meta.write(directory, metadata | changes)


def messages(directory: str) -> list[Message]:
    """Return the whole transcript of a session."""
    with Reader(directory) as reader:
        return transcript(reader.rows())


def recap_view(
    directory: str, limit: int, redactor: Redactor, generated_at: str | None = None
) -> dict[str, Any]:
    """Return the recap of a session: its view and its last `limit` messages, with secrets redacted."""
    from agh.core.recap import recap

    view = session_view(directory)
    with Reader(directory) as reader:

        def read() -> dict[str, Any]:
            (queued_inputs,), (generation,) = (
                reader.fetch("SELECT count(*) FROM inputs WHERE status = 'queued'")[0],
                reader.fetch("SELECT coalesce(max(generation), 0) FROM inputs")[0],
            )
            ((pending_permissions,),) = reader.fetch(
                "SELECT count(*) FROM permissions WHERE status = 'pending'"
            )
            milestone, last_messages = milestones.tail(reader, limit)
            return recap(
                view,
                [*milestones.markers(reader), *last_messages],
                limit,
                redactor,
                generated_at=generated_at or timestamp(),
                event_cursor=reader.last_sequence(),
                pending_inputs=queued_inputs,
                pending_permissions=pending_permissions,
                queue_generation=generation,
                omitted_messages=milestone.messages,
            )

        return reader.snapshot(read)


def _view(directory: str, metadata: Mapping[str, Any], now: str) -> View:
    is_locked = metadata.get("state") in status.LIVE_STATES and locks.is_held(directory)
    return status.view(metadata, is_locked, now)


def _damaged_view(directory: str, error: MetaInvalid) -> View:
    return {
        "id": os.path.basename(directory),
        "state": "unknown",
        "phase": "failed",
        "badge": "unknown",
        "attachable": False,
        "error": error.as_dict(),
    }
