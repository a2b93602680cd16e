"""Sessions as they are shown: what the read commands print and a server answers. Reading never writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agh.core import status
from agh.core.events import timestamp
from agh.core.transcript import Message, transcript
from agh.errors import MetaInvalid, SessionBusy
from agh.store import lock, meta, milestones, sessions
from agh.store.reader import Reader

if TYPE_CHECKING:
    from agh.core.redact import Redactor

View = dict[str, Any]


def session_view(directory: str) -> View:
    """One session: its metadata, classified if its keeper vanished, and what follows from it."""
    return _view(directory, meta.read(directory), timestamp())


def list_views(keep: Callable[[View], bool] = lambda view: True) -> list[View]:
    """All sessions that `keep` wants, newest activity first; unreadable ones are among them."""
    now = timestamp()
    views = []
    for directory, found in sessions.scan():
        view = _damaged(directory, found) if isinstance(found, MetaInvalid) else _view(directory, found, now)
        if keep(view):
            views.append(view)
    views.sort(key=lambda view: (view.get("updated_at") or "", view["id"]), reverse=True)
    return views


def status_view(directory: str, answers: Callable[[str], bool]) -> View:
    """One session with the answer to "should it be resumed?". `answers` asks the keeper."""
    stored = meta.read(directory)
    held = lock.is_held(directory)
    view = status.view(stored, held, timestamp())
    return view | status.recovery(view, held, held and answers(directory))


def stop_notice(directory: str) -> dict[str, Any]:
    """The synthetic last object of a stream: how the session ended."""
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
    """Change the metadata of a session that is not live. SessionBusy when someone else has it."""
    held = lock.take(directory)
    if held is None:
        raise SessionBusy(os.path.basename(directory))
    with held:
        stored: Any = meta.read(directory)
        meta.write(directory, stored | changes)


def messages(directory: str) -> list[Message]:
    with Reader(directory) as reader:
        return transcript(reader.rows())


def recap_view(
    directory: str, limit: int, redactor: Redactor, generated_at: str | None = None
) -> dict[str, Any]:
    from agh.core.recap import recap

    view = session_view(directory)
    with Reader(directory) as reader:

        def read() -> dict[str, Any]:
            (waiting_inputs,), (generation,) = (
                reader.fetch("SELECT count(*) FROM inputs WHERE status = 'queued'")[0],
                reader.fetch("SELECT coalesce(max(generation), 0) FROM inputs")[0],
            )
            ((waiting_permissions,),) = reader.fetch(
                "SELECT count(*) FROM permissions WHERE status = 'pending'"
            )
            before, talk = milestones.tail(reader, limit)
            return recap(
                view,
                [*milestones.markers(reader), *talk],
                limit,
                redactor,
                generated_at=generated_at or timestamp(),
                event_cursor=reader.last_sequence(),
                pending_inputs=waiting_inputs,
                pending_permissions=waiting_permissions,
                queue_generation=generation,
                omitted_messages=before.messages,
            )

        return reader.snapshot(read)


def _view(directory: str, found: Mapping[str, Any], now: str) -> View:
    held = found.get("state") in status.LIVE_STATES and lock.is_held(directory)
    return status.view(found, held, now)


def _damaged(directory: str, error: MetaInvalid) -> View:
    return {
        "id": os.path.basename(directory),
        "state": "unknown",
        "phase": "failed",
        "badge": "unknown",
        "attachable": False,
        "error": error.as_dict(),
    }
