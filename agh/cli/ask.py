"""Questions to the user at this terminal: a permission that the agent waits for."""

from __future__ import annotations

import select
import sys
import time

from agh.cli.turn_view import View
from agh.console.output import remark
from agh.core.events import Row
from agh.errors import AghError
from agh.home import Session
from agh.keeper import client
from agh.store.reader import Reader

VERDICTS = {"y": "allow", "a": "allow_always", "n": "deny", "d": "deny_always"}
QUESTION = "  allow it? [y]es, [a]lways, [n]o, [d]eny always: "


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_inline(session: Session, row: Row, view: View, deadline: float | None) -> None:
    """Ask until there is an answer, here or from another terminal, or the time is up."""
    request_id = str(row.parsed().get("request_id"))
    if not _is_pending(session, request_id):
        return
    view.pause()
    try:
        verdict = _answer(session, request_id, deadline)
        if verdict is not None:
            client.call(session, "decide", request_id=request_id, verdict=verdict, by="terminal")
    except AghError as error:
        remark(f"agh: {error.message}")
    finally:
        view.resume()


def refuse_at_once(session: Session, row: Row) -> None:
    """Refuse a request that still waits, for a run that nobody attends."""
    request_id = str(row.parsed().get("request_id"))
    if _is_pending(session, request_id):
        try:
            client.call(session, "decide", request_id=request_id, verdict="deny", by="no-ask")
        except AghError:
            pass  # somebody was faster


def _answer(session: Session, request_id: str, deadline: float | None) -> str | None:
    talk_now = True
    while _is_pending(session, request_id):
        if deadline is not None and time.monotonic() >= deadline:
            return None
        if talk_now:
            print(QUESTION, end="", file=sys.stderr, flush=True)
            talk_now = False
        if select.select([sys.stdin], [], [], 0.2)[0]:
            key = sys.stdin.readline().strip().lower()[:1]
            if key in VERDICTS:
                return VERDICTS[key]
            talk_now = True
    remark("(answered elsewhere)")
    return None


def _is_pending(session: Session, request_id: str) -> bool:
    with Reader(session) as reader:
        rows = reader.fetch("SELECT status FROM permissions WHERE request_id = ?", [request_id])
    return bool(rows) and rows[0][0] == "pending"
