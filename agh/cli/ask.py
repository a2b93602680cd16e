"""Questions to the user at this terminal: a permission that the agent waits for."""

from __future__ import annotations

import select
import sys
import time
from typing import Any

from agh.cli.turn_view import View
from agh.console import terminal
from agh.console.output import remark
from agh.core.events import Row
from agh.errors import AghError
from agh.home import Session
from agh.store.reader import Reader

KEYS = {
    "y": ("allow", "[y]es"),
    "a": ("allow_always", "[a]lways"),
    "n": ("deny", "[n]o"),
    "d": ("deny_always", "[d]eny always"),
}
DIFF_LINES = 200


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_inline(session: Session, row: Row, view: View, deadline: float | None) -> None:
    """Ask until there is an answer, here or from another terminal, or the time is up."""
    request_id = str(row.parsed().get("request_id"))
    if not _is_pending(session, request_id):
        return
    view.pause()
    try:
        ask_about(session, request_id, deadline)
    finally:
        view.resume()


def ask_about(session: Session, request_id: str, deadline: float | None = None) -> None:
    """Show the change that is asked for, ask, and send the answer."""
    from agh.sessions.permissions import decide, find_request

    request = find_request(session, request_id)
    if request is None:
        return
    for line in str(request["diff"] or "").splitlines()[:DIFF_LINES]:
        remark(f"  {terminal.clean(line)}")
    try:
        verdict = _answer(session, request, deadline)
        if verdict is not None:
            decide(session, request, verdict, by="terminal")
    except AghError as error:
        remark(f"agh: {error.message}")


def answer_early(refuse: bool, session: Session, request_id: str) -> None:
    """Show a request that the agent makes outside a turn; refuse it, ask, or say how to answer it."""
    from agh.sessions.permissions import find_request

    request = find_request(session, request_id)
    if request is None or request["status"] != "pending":
        return
    remark(f"the agent asks for permission: {terminal.one_line(request['about'], 4000)}")
    if request["title"]:
        remark(f"  the agent calls it: {terminal.one_line(request['title'], 400)}")
    if refuse:
        refuse_at_once(session, request_id)
    elif can_ask():
        ask_about(session, request_id)
    else:
        remark(f"  agh session approve|deny {session.id} {request_id}")


def refuse_at_once(session: Session, request_id: str) -> None:
    """Refuse a request that still waits, for a run that nobody attends."""
    from agh.sessions.permissions import decide, find_request

    request = find_request(session, request_id)
    if request is not None and request["status"] == "pending":
        try:
            decide(session, request, "deny", by="no-ask")
        except AghError:
            pass  # somebody was faster


def _answer(session: Session, request: dict[str, Any], deadline: float | None) -> str | None:
    talk_now = True
    verdicts = {
        key: verdict for key, (verdict, _) in KEYS.items() if verdict in (*request["offered"], "deny")
    }
    choices = ", ".join(KEYS[key][1] for key in verdicts)
    while _is_pending(session, request["request_id"]):
        if deadline is not None and time.monotonic() >= deadline:
            return None
        if talk_now:
            print(f"  allow it? {choices}: ", end="", file=sys.stderr, flush=True)
            talk_now = False
        if select.select([sys.stdin], [], [], 0.2)[0]:
            key = sys.stdin.readline().strip().lower()[:1]
            if key in verdicts:
                return verdicts[key]
            talk_now = True
    remark("(answered elsewhere)")
    return None


def _is_pending(session: Session, request_id: str) -> bool:
    with Reader(session) as reader:
        rows = reader.fetch("SELECT status FROM permissions WHERE request_id = ?", [request_id])
    return bool(rows) and rows[0][0] == "pending"
