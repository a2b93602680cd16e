"""What a session's agent asks for, as it is shown everywhere, and answering it.

Promises: an answer names its request and carries the digest of what was shown. If several requests wait, none
is picked.
"""

from __future__ import annotations

from typing import Any

import orjson

from agh.core.acp.permission import SUBJECT, description, digest, headline, named_options, offered
from agh.errors import AghError, KeeperGone, PermissionAmbiguous, PermissionUnknown
from agh.home import Session
from agh.keeper import client
from agh.store import lock
from agh.store.reader import Reader
from agh.store.schema import LANDMARK

_COLUMNS = (
    "request_id",
    "turn_id",
    "status",
    "action",
    "resource",
    "title",
    "request",
    "decision",
    "decided_by",
    "created_at",
)


def requests(session: Session, everything: bool) -> list[dict[str, Any]]:
    """List the requests that wait for an answer, or all there ever were; oldest first."""
    where = "1" if everything else "status = 'pending'"
    return _read(session, where)


def find_request(session: Session, request_id: str) -> dict[str, Any] | None:
    """Return a request as it is shown; None if there is none with this id."""
    rows = _read(session, "request_id = ?", request_id)
    return rows[0] if rows else None


def decide(
    session: Session, request: dict[str, Any], verdict: str, by: str = "user", option_id: str | None = None
) -> dict[str, Any]:
    """Answer a request that was shown; return its id and the decision.

    `option_id` names one of several options of the agent that mean the same verdict.
    """
    return client.call(
        session,
        "decide",
        request_id=request["request_id"],
        digest=request["digest"],
        verdict=verdict,
        by=by,
        option_id=option_id,
    )


def choose_request(session: Session, request_id: str | None) -> dict[str, Any]:
    """Return the request that is named, or the only one that waits."""
    if request_id is not None:
        request = find_request(session, request_id)
        if request is None or request["status"] != "pending":
            raise _nothing_waits(session, request_id)
        return request
    waiting = requests(session, everything=False)
    if not waiting:
        raise _nothing_waits(session, f"in session {session.id}")
    if len(waiting) > 1:
        ids = [request["request_id"] for request in waiting]
        raise PermissionAmbiguous(len(waiting), session.id, requests=ids)
    return waiting[0]


def _nothing_waits(session: Session, request_id: str) -> AghError:
    if lock.is_held(session):
        return PermissionUnknown(request_id, session.id)
    return KeeperGone(session.id)


def _read(session: Session, where: str, *values: str) -> list[dict[str, Any]]:
    with Reader(session) as reader:

        def read() -> tuple[list[Any], list[Any]]:
            rows = reader.fetch(
                f"SELECT {', '.join(_COLUMNS)} FROM permissions WHERE {where} ORDER BY created_at, rowid",
                values,
            )
            contents = reader.fetch(
                f"SELECT json_remove(content, '$.raw') FROM events WHERE {LANDMARK} AND type = 'permission' "
                f"AND content ->> '$.request_id' IN (SELECT request_id FROM permissions WHERE {where})",
                values,
            )
            return rows, contents

        rows, contents = reader.snapshot(read)
    questions: dict[str, dict[str, Any]] = {}
    decisions: dict[str, dict[str, Any]] = {}
    for (text,) in contents:
        content = orjson.loads(text)
        (decisions if "decision" in content else questions)[content["request_id"]] = content
    return [
        _describe(dict(zip(_COLUMNS, row, strict=True)), questions.get(row[0], {}), decisions.get(row[0], {}))
        for row in rows
    ]


def _describe(row: dict[str, Any], question: dict[str, Any], decision: dict[str, Any]) -> dict[str, Any]:
    """Return a request from its row and its events; an old log may have less in its events."""
    options = orjson.loads(row.pop("request"))
    subject = {key: question.get(key, row.get(key)) for key in SUBJECT}
    return {
        "request_id": row["request_id"],
        "turn_id": row["turn_id"],
        "status": row["status"],
        "about": headline(subject),
        **subject,
        "description": description(subject),
        "offered": offered(options),
        "options": named_options(options),
        "steps": question.get("steps"),
        "decision": row["decision"],
        "decided_by": row["decided_by"],
        "rule": decision.get("rule"),
        "created_at": row["created_at"],
        "digest": digest(row["request_id"], subject, options),
    }
