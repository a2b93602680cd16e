"""Members: each is an agh session of its own, with its own keeper, log and way back.

`seat` makes a member's session live, and the same session however often it is called; `ask` sends one
prompt under a key and reports how its turn ended. A key is sent at most once: asking again under it, after
any death, finds the turn that there was.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from agh.core.events import TURN_END_TYPES, Row
from agh.core.transcript import transcript
from agh.errors import AghError, KeeperDied, KeeperGone, NameTaken, SessionNotFound
from agh.home import session_path
from agh.keeper import client
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.store import meta, sessions
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Reader
from agh_council.profile import Perspective

OWN_WAY = ("inject_history",)  # the council tells a member its own tail in place of its whole history
_LOST = ("keeper_gone", "keeper_died", "session_stopping", "session_starting")


class Seat(NamedTuple):
    """A member that is ready to be asked."""

    session_id: str
    acp_session_id: str | None
    restore: dict[str, Any] | None


class Sent(NamedTuple):
    """The member's keeper has it."""

    turn_id: str


class Costs(NamedTuple):
    """What the running turn has cost so far."""

    cost: float


class Asks(NamedTuple):
    """The running turn waits for somebody's permission."""

    title: str


class Ended(NamedTuple):
    """answered, failed, cancelled or unknown; `text` is the answer or the reason."""

    status: str
    text: str
    cost: float = 0.0


Report = Sent | Costs | Asks | Ended


def directory_of(session_id: str) -> str:
    return session_path(session_id)


def seat(
    name: str,
    known: str | None,
    seat: Perspective,
    workspace: str,
    permissions: str | None,
    rules: list[dict[str, str]],
) -> Seat:
    """Make a member's session live: the one that is known or has its name, or a new one."""
    directory = _find(known, name)
    if directory is None:
        try:
            directory, _ = create(
                agent=seat.agent or None,
                command=shlex.split(seat.command) or None,
                name=name,
                workspace=workspace,
                permissions=permissions,
                options={"model": seat.model} if seat.model else None,
                rules=rules,
            )
        except NameTaken:
            directory = sessions.resolve(name)
    ensure_live(directory, skip=OWN_WAY)
    stored = meta.read(directory)
    restore = stored.get("restore")
    if known is not None and stored["id"] != known:
        restore = {
            "strategy": "idle_boot",
            "reason": f"its session {known} is gone",
            "at": stored["created_at"],
        }
    return Seat(stored["id"], stored.get("acp_session_id"), restore)


def _find(known: str | None, name: str) -> str | None:
    if known is not None and os.path.isdir(session_path(known)):
        return session_path(known)
    try:
        return sessions.resolve(name)
    except SessionNotFound:
        return None


def ask(directory: str, text: str, key: str, report: Callable[[Report], None]) -> None:
    """Send a prompt and report what comes of it, up to its end."""
    try:
        blocks = [{"type": "text", "text": text}]
        receipt = client.call(directory, "prompt", prompt=blocks, idempotency_key=key)
        if receipt["status"] == "cancelled":
            report(Ended("cancelled", "the prompt was taken out of the queue"))
            return
        report(Sent(receipt["turn_id"]))
        report(_watch(directory, receipt["turn_id"], int(receipt["after"]), report))
    except AghError as error:
        lost = error.code in _LOST or isinstance(error, KeeperGone | KeeperDied)
        report(Ended("unknown" if lost else "failed", error.message))


def _watch(directory: str, turn_id: str, after: int, report: Callable[[Report], None]) -> Ended:
    rows: list[Row] = []
    for batch in follow([(directory, after)], EVERYTHING):
        for row in batch.rows:
            if row.turn_id != turn_id:
                continue
            rows.append(row)
            if row.type == "usage":
                report(Costs(_cost(directory, turn_id)))
            elif row.type == "permission" and _is_waiting(directory, row):
                report(Asks(str(row.parsed().get("title") or row.parsed().get("action"))))
            elif row.type in TURN_END_TYPES:
                return _ended(rows, _cost(directory, turn_id))
    return Ended("unknown", "its keeper ended in the middle of the turn", _cost(directory, turn_id))


def _is_waiting(directory: str, row: Row) -> bool:
    """Whether a request for permission was not decided in the same breath, by a rule or the mode."""
    with Reader(directory) as reader:
        sql = "SELECT 1 FROM permissions WHERE request_id = ? AND status = 'pending'"
        return bool(reader.fetch(sql, [row.parsed().get("request_id")]))


def _ended(rows: list[Row], cost: float) -> Ended:
    last = rows[-1].parsed()
    reason = str(last.get("stop_reason") or "end_turn")
    if reason == "interrupted":
        return Ended("unknown", str(last.get("error") or "the turn was interrupted"), cost)
    if reason == "cancelled":
        return Ended("cancelled", "the turn was cancelled", cost)
    if rows[-1].type == "error" or reason == "refusal":
        return Ended("failed", str(last.get("error") or f"the turn ended with {reason}"), cost)
    said = [one["content"] for one in transcript(rows) if one["role"] == "assistant" and one["content"]]
    return Ended("answered", "\n\n".join(said), cost)


def _cost(directory: str, turn_id: str) -> float:
    with Reader(directory) as reader:
        found = reader.fetch("SELECT cost_amount FROM token_usage WHERE turn_id = ?", [turn_id])
    return float(found[0][0] or 0.0) if found else 0.0


def cancel(directory: str) -> None:
    """Ask a member to end its turn; one that has none has nothing to end."""
    try:
        client.call(directory, "cancel")
    except AghError:
        pass


def stop(directory: str, reason: str) -> None:
    """End a member's agent; its session stays."""
    try:
        pid = client.call(directory, "stop", reason=reason)["pid"]
        client.await_end(directory, client.ANSWER_LIMIT, pid)
    except AghError:
        pass
