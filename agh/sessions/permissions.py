"""What a session's agent asks for, and answering it."""

from __future__ import annotations

from typing import Any

from agh.home import Session
from agh.keeper import client
from agh.store.reader import Reader

_SHOWN = (
    "request_id",
    "turn_id",
    "status",
    "action",
    "resource",
    "title",
    "decision",
    "decided_by",
    "created_at",
)


def requests(session: Session, everything: bool) -> list[dict[str, Any]]:
    """List the requests that wait for an answer, or all there ever were; oldest first."""
    where = "" if everything else "WHERE status = 'pending'"
    with Reader(session) as reader:
        found = reader.fetch(
            f"SELECT {', '.join(_SHOWN)} FROM permissions {where} ORDER BY created_at, request_id"
        )
    return [dict(zip(_SHOWN, row, strict=True)) for row in found]


def decide(session: Session, request_id: str | None, verdict: str, by: str = "user") -> dict[str, Any]:
    """Answer a request (the oldest that waits, unless one is named); return its id and the decision."""
    return client.call(session, "decide", request_id=request_id, verdict=verdict, by=by)
