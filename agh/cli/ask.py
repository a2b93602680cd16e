"""What the agent waits for, asked at this terminal: permissions here, questions in question_form."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
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
QUESTION_ID = "ques-"


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def take_request(session: Session, row: Row, view: View, deadline: float | None, *, refuse: bool) -> None:
    """Show what a row of the turn asks, and ask it if this is a terminal; or refuse it at once.

    Of what is decided already, as by the permission mode, only the decision is shown.
    """
    request_id = str(row.parsed().get("request_id"))
    if refuse:
        view.hold(row)
        (_decline_question if row.type == "question" else refuse_at_once)(session, request_id)
        return
    if not _is_pending(session, request_id, f"{row.type}s"):
        view.hold(row)
        return
    view.show(row)
    if can_ask():
        view.pause()
        try:
            (_ask_question if row.type == "question" else ask_about)(session, request_id, deadline)
        finally:
            view.resume()


def read_line(words: str, is_open: Callable[[], bool], deadline: float | None) -> str | None:
    """Read a line at the terminal; None if the question is answered elsewhere, or the time is up."""
    print(words, end="", file=sys.stderr, flush=True)
    while is_open():
        if deadline is not None and time.monotonic() >= deadline:
            return None
        if select.select([sys.stdin], [], [], 0.2)[0]:
            return sys.stdin.readline() or None
    remark("(answered elsewhere)")
    return None


def ask_about(session: Session, request_id: str, deadline: float | None = None) -> None:
    """Show the change that is asked for, ask, and send the answer."""
    from agh.sessions.requests.permissions import decide, find_request

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
    if request_id.startswith(QUESTION_ID):
        from agh.cli.question_form import answer_early_question

        answer_early_question(refuse, session, request_id)
        return
    from agh.sessions.requests.permissions import find_request

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
    from agh.sessions.requests.permissions import decide, find_request

    request = find_request(session, request_id)
    if request is not None and request["status"] == "pending":
        try:
            decide(session, request, "deny", by="no-ask")
        except AghError:
            pass  # somebody was faster


def _answer(session: Session, request: dict[str, Any], deadline: float | None) -> str | None:
    verdicts = {
        key: verdict for key, (verdict, _) in KEYS.items() if verdict in (*request["offered"], "deny")
    }
    choices = ", ".join(KEYS[key][1] for key in verdicts)

    def is_open() -> bool:
        return _is_pending(session, request["request_id"], "permissions")

    while (line := read_line(f"  allow it? {choices}: ", is_open, deadline)) is not None:
        key = line.strip().lower()[:1]
        if key in verdicts:
            return verdicts[key]
    return None


def _ask_question(session: Session, request_id: str, deadline: float | None) -> None:
    from agh.cli.question_form import ask_and_tell

    ask_and_tell(session, request_id, deadline)


def _decline_question(session: Session, request_id: str) -> None:
    from agh.cli.question_form import decline_at_once

    decline_at_once(session, request_id)


def _is_pending(session: Session, request_id: str, table: str) -> bool:
    with Reader(session) as reader:
        rows = reader.fetch(f"SELECT status FROM {table} WHERE request_id = ?", [request_id])
    return bool(rows) and rows[0][0] == "pending"
