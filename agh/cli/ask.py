"""What the agent waits for, asked at this terminal: permissions here, questions in question_form.

A `Dialog` is the person's side. This one reads lines; the chat has one above its input line.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agh.cli.look.turn_view import View
from agh.console import terminal
from agh.console.output import remark
from agh.core.events import Row
from agh.errors import AghError
from agh.home import Session
from agh.store.reader import Reader

if TYPE_CHECKING:
    from agh.cli.approval import Choice, Line  # a prompt that asks nothing does not need the module

QUESTION_ID = "ques-"
INDENT = "  "
LEAST_LINES, MOST_LINES = 8, 40  # of a change at the question; all of it is one key away


class Dialog:
    """A user at a terminal: reads their answers, and shows them what the answers are about."""

    def room(self) -> int:
        """Return how many lines of a change fit above the question."""
        try:
            return min(MOST_LINES, max(LEAST_LINES, os.get_terminal_size(2).lines - 12))
        except OSError:
            return MOST_LINES

    def show(self, lines: Iterable[Line]) -> None:
        """Show lines above the question."""
        from agh.cli.approval import styled

        lines = list(lines)
        if not sys.stderr.isatty():
            lines = [line._replace(role=None) for line in lines]
        print(styled(lines), end="", file=sys.stderr, flush=True)

    def read(
        self, words: str, is_open: Callable[[], bool], deadline: float | None, keys: Collection[str] = ()
    ) -> str | None:
        """Read a line, or one of the `keys`; None if it is answered elsewhere, or the time is up."""
        lines = terminal.wrap(words, _columns() - len(INDENT))
        return read_line("\n".join(f"{INDENT}{line}" for line in lines), is_open, deadline)

    def discard_input(self) -> None:
        """Discard what was typed before the question was there: it was no answer to it."""
        import termios

        try:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        except (OSError, ValueError, termios.error):
            pass  # it is no terminal

    def page(self, lines: Iterable[Line]) -> None:
        """Show lines in the pager."""
        from agh.cli.approval import styled
        from agh.console.pager import page

        page(styled(lines))


TERMINAL = Dialog()


def _columns() -> int:
    """Return the width of the terminal that questions are written to."""
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def can_ask() -> bool:
    """Tell whether somebody is at a terminal; a command may have been started without any stream."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


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
    if sys.stderr.isatty():
        from agh.cli.inbox.ring import ring_for_row

        ring_for_row("needs_you", session, row)
    if not can_ask():
        view.show(row)
        return
    view.introduce(row)
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


def ask_about(
    session: Session, request_id: str, deadline: float | None = None, dialog: Dialog = TERMINAL
) -> None:
    """Show the change that is asked for, ask, and send the answer."""
    from agh.cli.approval import diff_lines
    from agh.sessions.requests.permissions import decide, find_request

    request = find_request(session, request_id)
    if request is None:
        return
    dialog.show(diff_lines(request["diff"], dialog.room()))
    dialog.discard_input()
    try:
        choice = _choose(session, request, deadline, dialog)
        if choice is not None:
            decide(session, request, choice.verdict, by="terminal", option_id=choice.option_id)
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
        remark(f"  agh session approve {session.id} {request_id} (or deny)")


def answer_outside_turns(session: Session, refuse: bool) -> None:
    """Show what the agent asked for outside any turn, and answer it if that is possible here."""
    from agh.sessions.requests.permissions import requests
    from agh.sessions.requests.questions import questions

    for request in [*requests(session, everything=False), *questions(session, everything=False)]:
        if not request["turn_id"]:
            answer_early(refuse, session, request["request_id"])


def refuse_at_once(session: Session, request_id: str) -> None:
    """Refuse a request that still waits, for a run that nobody attends."""
    from agh.sessions.requests.permissions import decide, find_request

    request = find_request(session, request_id)
    if request is not None and request["status"] == "pending":
        try:
            decide(session, request, "deny", by="no-ask")
        except AghError:
            pass  # somebody was faster


def _choose(
    session: Session, request: Mapping[str, Any], deadline: float | None, dialog: Dialog
) -> Choice | None:
    """Ask until an answer that the agent offers is chosen; None if somebody else was faster."""
    from agh.cli.approval import VIEW_KEY, choices, has_more, key_of, question_words, request_lines

    rows, is_long = choices(request), has_more(request, dialog.room())
    words = question_words(rows, is_long)
    keys = {row.key: row for row in rows}

    def is_open() -> bool:
        return _is_pending(session, request["request_id"], "permissions")

    offered = [*keys, *([VIEW_KEY] if is_long else [])]
    while (line := dialog.read(words, is_open, deadline, offered)) is not None:
        key = key_of(line, offered)
        if key == VIEW_KEY and is_long:
            dialog.page(request_lines(request))
        elif key in keys:
            return keys[key]
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
