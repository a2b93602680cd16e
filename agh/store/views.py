"""Views of sessions, as commands print them and a server returns them. Only `update_metadata` writes.

A list and a status read no log, so only the functions that read one import what reads it (4 ms).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agh.core import status
from agh.core.display.times import timestamp
from agh.errors import KeeperNotResponding, MetaInvalid, SessionBusy
from agh.home import Session
from agh.store import lock as locks
from agh.store import meta, sessions

if TYPE_CHECKING:
    from agh.core.display.brief import Brief
    from agh.core.events import Row
    from agh.core.redaction.redact import Redactor
    from agh.core.transcript import Message

View = dict[str, Any]


def session_view(session: Session, holder: str | None = None) -> View:
    """Return a session's metadata with its derived fields, as `holder` sees it.

    A vanished keeper shows in the state.
    """
    return _view(session, meta.read(session), timestamp(), holder)


def list_views(keep: Callable[[View], bool] = lambda view: True, holder: str | None = None) -> list[View]:
    """List the sessions that `keep` accepts, newest activity first. Unreadable ones are included."""
    views = read_views(sessions.all_sessions(), holder)
    return sorted(
        filter(keep, views), key=lambda view: (view.get("updated_at") or "", view["id"]), reverse=True
    )


def list_briefs() -> list[Brief]:
    """List all sessions as briefs, newest activity first, most of them from the list cache."""
    from agh.store.caches.briefs import BriefCache

    cache = BriefCache(lambda some: read_views(some, None))
    briefs = cache.briefs()
    cache.save()
    briefs.sort(reverse=True)
    return briefs


def read_views(some: Iterable[Session], holder: str | None) -> Iterator[View]:
    """Yield the views of these sessions. Those of unreadable ones have an `error`."""
    now = timestamp()
    for session in some:
        try:
            yield _view(session, meta.read(session), now, holder)
        except MetaInvalid as error:
            yield _damaged_view(session, error)


def status_view(session: Session, answers: Callable[[Session], bool], holder: str | None = None) -> View:
    """Return a session's view with the answer to "should it be resumed?". `answers` asks the keeper."""
    metadata = meta.read(session)
    is_locked = locks.is_held(session)
    view = status.view(metadata, is_locked, timestamp(), holder)
    try:
        is_answering = is_locked and answers(session)
    except KeeperNotResponding:
        is_answering = False
        view |= status.NOT_RESPONDING
    view |= status.recovery(view, is_locked, is_answering)
    if view.get("workspace_path"):
        from agh.config import trust_state  # a list does not need the settings

        view["workspace_trust"] = trust_state(view["workspace_path"])
    return view


def stop_notice(session: Session) -> dict[str, Any]:
    """Return the synthetic last object of a stream, which says how the session ended."""
    view = session_view(session)
    return {
        "id": f"session-stopped-{view['id']}",
        "session_id": view["id"],
        "type": "session_stopped",
        "stop_reason": view.get("stop_reason"),
        "failure": view.get("failure"),
        "timestamp": view.get("updated_at"),
    }


def update_metadata(session: Session, **changes: Any) -> None:
    """Change the metadata of a session that is not live. Raise SessionBusy if it is locked."""
    lock = locks.take(session)
    if lock is None:
        raise SessionBusy(session.id)
    with lock:
        metadata: Any = meta.read(session)
        meta.write(session, metadata | changes)


def messages(session: Session) -> list[Message]:
    """Return the whole transcript of a session."""
    from agh.core.transcript import transcript
    from agh.store.reader import Reader

    with Reader(session) as reader:
        return transcript(reader.rows())


def recap_view(
    session: Session, limit: int, redactor: Redactor, generated_at: str | None = None
) -> dict[str, Any]:
    """Return the recap of a session: its view and its last `limit` messages, with secrets redacted."""
    from agh.core.recap import recap
    from agh.core.redaction.redacted import redacted_rows
    from agh.store import milestones
    from agh.store.reader import Reader

    def clean(rows: list[Row]) -> list[Row]:
        """Redact the rows before messages are made of them: a secret may be split in ways only they show."""
        return list(redacted_rows(rows, redactor))

    view = session_view(session)
    with Reader(session) as reader:

        def read() -> dict[str, Any]:
            (queued_inputs,), (generation,) = (
                reader.fetch("SELECT count(*) FROM inputs WHERE status = 'queued'")[0],
                reader.fetch("SELECT coalesce(max(generation), 0) FROM inputs")[0],
            )
            ((pending_permissions,),) = reader.fetch(
                "SELECT count(*) FROM permissions WHERE status = 'pending'"
            )
            pending_questions = 0
            if reader.has_questions:
                ((pending_questions,),) = reader.fetch(
                    "SELECT count(*) FROM questions WHERE status IN ('pending', 'orphaned')"
                )
            milestone, last_messages = milestones.redacted_tail(reader, limit, clean)
            return recap(
                view,
                [*milestones.markers(reader), *last_messages],
                limit,
                redactor,
                generated_at=generated_at or timestamp(),
                event_cursor=reader.last_sequence(),
                pending_inputs=queued_inputs,
                pending_permissions=pending_permissions,
                pending_questions=pending_questions,
                queue_generation=generation,
                omitted_messages=milestone.messages,
            )

        return reader.snapshot(read)


def _view(session: Session, metadata: Mapping[str, Any], now: str, holder: str | None) -> View:
    is_locked = metadata.get("state") in status.LIVE_STATES and locks.is_held(session)
    return status.view(metadata, is_locked, now, holder)


def _damaged_view(session: Session, error: MetaInvalid) -> View:
    return {
        "id": session.id,
        "state": "unknown",
        "phase": "failed",
        "badge": "unknown",
        "attachable": False,
        "error": error.as_dict(),
    }
