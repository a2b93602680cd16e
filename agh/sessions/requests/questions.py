"""What a session's agent asks in its own words, and answering it.

Promises: an answer names its question and is checked against its form; if several wait, none is picked. A
question whose keeper is gone is `orphaned`: its answer resumes the session and is sent as a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agh.core.acp.question import check_answer, description, stored_question
from agh.core.events import draft, timestamp
from agh.core.status import LIVE_STATES
from agh.errors import (
    AghError,
    AnswerInvalid,
    MetaInvalid,
    QuestionAmbiguous,
    QuestionUnknown,
    SessionBusy,
)
from agh.home import Session
from agh.keeper import client
from agh.sessions.start import OnRequest, ensure_live
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.reader import Reader
from agh.store.writer import Writer

_COLUMNS = (
    "request_id",
    "turn_id",
    "status",
    "message",
    "request",
    "decision",
    "answer",
    "decided_by",
    "created_at",
)
_NOT_NOW = ("keeper_gone", "keeper_died", "session_starting", "session_stopping")


def questions(session: Session, everything: bool) -> list[dict[str, Any]]:
    """List the questions that can be answered, or all there ever were; oldest first."""
    return _read(session, "1" if everything else "status IN ('pending', 'orphaned')")


def open_questions() -> list[dict[str, Any]]:
    """List the questions of all sessions that can be answered, each with its session's id."""
    rows = []
    for session, metadata in sessions.scan():
        if isinstance(metadata, MetaInvalid):
            continue
        activity = metadata.get("activity") or {}
        if activity.get("pending_questions") or metadata.get("orphaned_questions"):
            rows += questions(session, everything=False)
    return rows


def find_question(session: Session, request_id: str) -> dict[str, Any] | None:
    """Return a question as it is shown; None if there is none with this id."""
    rows = _read(session, "request_id = ?", request_id)
    return rows[0] if rows else None


def choose_question(session: Session, request_id: str | None) -> dict[str, Any]:
    """Return the question that is named, or the only one that can be answered."""
    if request_id is not None:
        question = find_question(session, request_id)
        if question is None or question["status"] not in ("pending", "orphaned"):
            raise QuestionUnknown(request_id, session.id)
        return question
    waiting = questions(session, everything=False)
    if not waiting:
        raise QuestionUnknown(f"in session {session.id}", hint=f"agh session questions {session.id} --all")
    if len(waiting) > 1:
        ids = [question["request_id"] for question in waiting]
        raise QuestionAmbiguous(len(waiting), session.id, requests=ids)
    return waiting[0]


def read_answer(question: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an answer to the question; raise AnswerInvalid if it does not fit."""
    try:
        return check_answer(question["fields"], values)
    except ValueError as error:
        raise AnswerInvalid(str(error), question["session_id"]) from None


def answer(
    session: Session,
    question: Mapping[str, Any],
    decision: str,
    content: Mapping[str, Any] | None = None,
    by: str = "user",
    on_request: OnRequest | None = None,
) -> dict[str, Any]:
    """Answer a question: `accepted` with its content, `declined` or `cancelled`. Return the receipt.

    The answer to an orphaned question makes the session live and is a prompt: the receipt then has `input`,
    and `resumed` if the session had to be started.
    """
    request = {"request_id": question["request_id"], "decision": decision, "by": by}
    if decision == "accepted":
        request["content"] = read_answer(question, content or {})
    resumed: dict[str, Any] = {}
    while True:
        try:
            return client.call(session, "answer", **request) | resumed
        except AghError as error:
            if error.code not in _NOT_NOW:
                raise
        if decision != "accepted" and _close_orphaned(session, request):
            return {"request_id": question["request_id"], "decision": decision, "answer": None}
        hello = ensure_live(session, on_request=on_request)
        if hello["started"]:
            resumed = {"resumed": hello}


def _close_orphaned(session: Session, request: Mapping[str, Any]) -> bool:
    """Close a question of a session that is not live, without starting it; return False if it is live."""
    from agh.sessions.repair import repair_locked

    lock = locks.take(session)
    if lock is None:
        if locks.is_held(session):
            return False
        raise SessionBusy(session.id)
    with lock:
        repair_locked(lock)
        metadata, now = meta.read(session), timestamp()
        decision, by = request["decision"], request["by"]
        with Writer(lock, metadata["agent_name"]) as writer, writer.transaction() as connection:
            changed = connection.execute(
                "UPDATE questions SET status = 'decided', decision = ?, decided_by = ?, decided_at = ? "
                "WHERE request_id = ? AND status = 'orphaned' RETURNING turn_id",
                [decision, by, now, request["request_id"]],
            ).fetchall()
            if not changed:
                raise QuestionUnknown(request["request_id"], session.id)
            fields = {"request_id": request["request_id"], "decision": decision, "decided_by": by}
            writer.append([draft("question", turn_id=changed[0][0], at=now, **fields)])
            metadata["last_sequence"] = writer.last_sequence
        metadata["orphaned_questions"] = max(0, (metadata.get("orphaned_questions") or 0) - 1)
        meta.write(session, metadata)
    return True


def _read(session: Session, where: str, *values: str) -> list[dict[str, Any]]:
    with Reader(session) as reader:
        if not reader.has_questions:
            return []
        rows = reader.fetch(
            f"SELECT {', '.join(_COLUMNS)} FROM questions WHERE {where} ORDER BY created_at, rowid", values
        )
    is_live = any(row[2] == "pending" for row in rows) and _is_live(session)
    return [_describe(session, dict(zip(_COLUMNS, row, strict=True)), is_live) for row in rows]


def _is_live(session: Session) -> bool:
    return meta.read(session)["state"] in LIVE_STATES and locks.is_held(session)


def _describe(session: Session, row: dict[str, Any], is_live: bool) -> dict[str, Any]:
    question = stored_question(row["request"], row["message"])
    orphaned = row["status"] == "pending" and not is_live  # as the next writer will store it
    return {
        "session_id": session.id,
        "request_id": row["request_id"],
        "turn_id": row["turn_id"],
        "status": "orphaned" if orphaned else row["status"],
        "mode": question["mode"],
        "message": question["message"],
        "url": question["url"],
        "fields": question["fields"],
        "tool_call_id": question["tool_call_id"],
        "description": description(question),
        "decision": row["decision"],
        "answer": orjson.loads(row["answer"]) if row["answer"] else None,
        "decided_by": row["decided_by"],
        "created_at": row["created_at"],
    }
