"""The agh session of one member: starting it, asking it, and stopping it.

Promises: `ensure_started` always starts the same session for the same member, however often it is called.
`ask` sends a prompt under a key and reports how its turn ended. A key is sent at most once: asking again
under the same key, even after a crash, finds the turn that the first attempt started.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any

from agh.core.acp.permission import headline
from agh.core.events import TURN_END_TYPES, Row
from agh.core.named_tuple import NamedTuple
from agh.core.transcript import transcript
from agh.errors import AghError, KeeperDied, KeeperGone, NameTaken, SessionNotFound
from agh.home import Session, session_of
from agh.keeper import client
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.store import meta, sessions
from agh.store.catch_up import await_metadata
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Reader
from agh_council.profile import Perspective

SKIPPED_STRATEGIES = ("inject_history",)  # the council sends the member's own tail, not its whole history
_LOST_CODES = ("keeper_gone", "keeper_died", "session_stopping", "session_starting")


class StartedMember(NamedTuple):
    """A member whose session is live."""

    session_id: str
    acp_session_id: str | None
    restore: dict[str, Any] | None


class Accepted(NamedTuple):
    """The member's keeper has accepted the prompt."""

    turn_id: str


class RunningCost(NamedTuple):
    """The cost of the running turn so far."""

    cost: float


class PermissionWanted(NamedTuple):
    """The running turn waits for a permission."""

    title: str


class QuestionAsked(NamedTuple):
    """The running turn waits for the answer to a question."""

    message: str


class TurnEnded(NamedTuple):
    """The end of a turn: answered, failed, cancelled or unknown. `text` is the answer or the reason."""

    status: str
    text: str
    cost: float = 0.0


Report = Accepted | RunningCost | PermissionWanted | QuestionAsked | TurnEnded


def ensure_started(
    name: str,
    session_id: str | None,
    perspective: Perspective,
    workspace: str,
    permissions: str | None,
    rules: list[dict[str, str]],
) -> StartedMember:
    """Start a member's session: the one with this id, else with this name, else a new one."""
    session = _find(session_id, name, workspace)
    if session is None:
        try:
            session, _ = create(
                agent=perspective.agent or None,
                command=shlex.split(perspective.command) or None,
                name=name,
                workspace=workspace,
                permissions=permissions,
                options={"model": perspective.model} if perspective.model else None,
                rules=rules,
            )
        except NameTaken:
            session = sessions.resolve(name, workspace)
    ensure_live(session, skip=SKIPPED_STRATEGIES)
    session_meta = meta.read(session)
    restore = session_meta.get("restore")
    if session_id is not None and session_meta["id"] != session_id:
        restore = {
            "strategy": "idle_boot",
            "reason": f"its session {session_id} is gone",
            "at": session_meta["created_at"],
        }
    return StartedMember(session_meta["id"], session_meta.get("acp_session_id"), restore)


def _find(session_id: str | None, name: str, workspace: str) -> Session | None:
    if session_id is not None and os.path.isdir(session_of(session_id)):
        return session_of(session_id)
    try:
        return sessions.resolve(name, workspace)
    except SessionNotFound:
        return None


def ask(session: Session, text: str, key: str, report: Callable[[Report], None]) -> None:
    """Send a prompt and report on its turn until it ends."""
    try:
        blocks = [{"type": "text", "text": text}]
        receipt = client.call(session, "prompt", prompt=blocks, idempotency_key=key)
        if receipt["status"] == "cancelled":
            report(TurnEnded("cancelled", "the prompt was dropped from the queue"))
            return
        report(Accepted(receipt["turn_id"]))
        report(_watch_turn(session, receipt["turn_id"], int(receipt["after"]), report))
    except AghError as error:
        is_lost = error.code in _LOST_CODES or isinstance(error, KeeperGone | KeeperDied)
        report(TurnEnded("unknown" if is_lost else "failed", error.message))


def _watch_turn(session: Session, turn_id: str, after: int, report: Callable[[Report], None]) -> TurnEnded:
    rows: list[Row] = []
    for batch in follow([(session, after)], EVERYTHING):
        for row in batch.rows:
            if row.turn_id != turn_id:
                continue
            rows.append(row)
            if row.type == "usage":
                report(RunningCost(_read_cost(session, turn_id)))
            elif row.type == "permission" and _is_undecided(session, row):
                report(PermissionWanted(headline(row.parsed())))
            elif row.type == "question" and not row.parsed().get("decision"):
                report(QuestionAsked(str(row.parsed().get("message"))))
            elif row.type in TURN_END_TYPES:
                await_metadata(session, row.sequence)
                return _turn_end(rows, _read_cost(session, turn_id))
    return TurnEnded("unknown", "its keeper ended in the middle of the turn", _read_cost(session, turn_id))


def _is_undecided(session: Session, row: Row) -> bool:
    """Tell whether a permission request still waits, that is, no rule or mode decided it at once."""
    with Reader(session) as reader:
        sql = "SELECT 1 FROM permissions WHERE request_id = ? AND status = 'pending'"
        return bool(reader.fetch(sql, [row.parsed().get("request_id")]))


def _turn_end(rows: list[Row], cost: float) -> TurnEnded:
    last = rows[-1].parsed()
    reason = str(last.get("stop_reason") or "end_turn")
    if reason == "interrupted":
        return TurnEnded("unknown", str(last.get("error") or "the turn was interrupted"), cost)
    if reason == "cancelled":
        return TurnEnded("cancelled", "the turn was cancelled", cost)
    if rows[-1].type == "error" or reason == "refusal":
        return TurnEnded(
            "failed", str(last.get("error") or f"the turn ended with the stop reason {reason}"), cost
        )
    texts = [
        message["content"]
        for message in transcript(rows)
        if message["role"] == "assistant" and message["content"]
    ]
    return TurnEnded("answered", "\n\n".join(texts), cost)


def _read_cost(session: Session, turn_id: str) -> float:
    with Reader(session) as reader:
        rows = reader.fetch("SELECT cost_amount FROM token_usage WHERE turn_id = ?", [turn_id])
    return float(rows[0][0] or 0.0) if rows else 0.0


def cancel(session: Session) -> None:
    """Ask a member to cancel its turn; do nothing if it cannot be reached or has no turn."""
    try:
        client.call(session, "cancel")
    except AghError:
        pass


def stop(session: Session, reason: str) -> None:
    """Stop a member's agent and wait for its keeper to exit; the session stays."""
    try:
        pid = client.call(session, "stop", reason=reason)["pid"]
        client.await_end(session, client.ANSWER_LIMIT, pid)
    except AghError:
        pass
