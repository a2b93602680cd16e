"""A question of the agent at this terminal: one field after the other, choices by number.

Nothing is sent before the last field is filled in, and a link is opened only after a yes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agh.cli.ask import TERMINAL, Dialog, can_ask
from agh.console import terminal
from agh.console.link import open_link
from agh.console.output import remark
from agh.core.acp.answer_value import check_value
from agh.core.acp.question import describe_field
from agh.errors import AghError
from agh.home import Session
from agh.sessions.requests.questions import answer, find_question

LONGEST = 4000
OPEN = ("pending", "orphaned")
_ESCAPES = {"/decline": "declined", "/cancel": "cancelled"}
_LATER = "/later"


class _Escape(Exception):
    """Ends the form early with this decision; None leaves the question open."""

    def __init__(self, decision: str | None) -> None:
        super().__init__()
        self.decision = decision


def ask_question(
    session: Session, request_id: str, deadline: float | None = None, dialog: Dialog = TERMINAL
) -> dict[str, Any] | None:
    """Ask until the form is filled in, or the question is answered elsewhere; return the receipt, if any."""
    question = find_question(session, request_id)
    if question is None or question["status"] not in OPEN:
        return None

    def is_open() -> bool:
        current = find_question(session, request_id)
        return current is not None and current["status"] in OPEN

    try:
        decision, content = _Form(is_open, deadline, dialog).fill_in(question)
        receipt = answer(session, question, decision, content, by="terminal")
    except _Escape as escape:
        if escape.decision is None:
            if is_open():
                remark(f"the question stays open; answer it with: {answer_hint(question)}")
            return None
        receipt = answer(session, question, escape.decision, by="terminal")
    tell_answered(receipt)
    if receipt["decision"] == "accepted" and question["mode"] == "url":
        show_link(question)
    return receipt


def answer_early_question(refuse: bool, session: Session, request_id: str) -> None:
    """Show a question that the agent asks outside a turn; decline it, ask, or say how to answer it."""
    question = find_question(session, request_id)
    if question is None or question["status"] not in OPEN:
        return
    remark(f"the agent asks: {terminal.one_line(question['message'], LONGEST)}")
    if refuse:
        decline_at_once(session, request_id)
    elif can_ask():
        ask_and_tell(session, request_id)
    else:
        remark(f"  {answer_hint(question)}")


def ask_and_tell(
    session: Session, request_id: str, deadline: float | None = None, dialog: Dialog = TERMINAL
) -> None:
    """Ask; an answer that cannot be sent is a remark, not the end of the turn."""
    try:
        ask_question(session, request_id, deadline, dialog)
    except AghError as error:
        remark(f"agh: {error.message}")


def decline_at_once(session: Session, request_id: str) -> None:
    """Decline a question that still waits, for a run that nobody attends, and say so."""
    question = find_question(session, request_id)
    if question is not None and question["status"] == "pending":
        try:
            answer(session, question, "declined", by="no-ask")
        except AghError:
            return  # somebody was faster
        words = terminal.one_line(question["message"], 400)
        remark(f"declined a question from the agent, because of --no-ask: {words}")


def tell_answered(receipt: dict[str, Any]) -> None:
    """Say if the answer had to be sent as a prompt, because the agent no longer waits for it."""
    if receipt.get("resumed"):
        remark("the session was resumed to deliver the answer")
    if receipt.get("input"):
        turn_id = receipt["input"]["turn_id"]
        text = "the agent had stopped waiting, so the question and your answer were sent as a prompt"
        remark(f"{text} ({turn_id})")


def show_link(question: dict[str, Any]) -> None:
    """Open the link of a question that was accepted, or print it where there is no browser."""
    url = terminal.clean(question["url"])
    remark(f"opened {url}" if open_link(question["url"]) else f"open this link: {url}")


def answer_hint(question: dict[str, Any]) -> str:
    """Return the command that answers a question from any terminal."""
    return answer_command(question["session_id"], question["request_id"], question["fields"])


def answer_command(session_id: str, request_id: str, fields: list[dict[str, Any]]) -> str:
    """Return the command for a form with these fields; without any, the question is accepted as it is."""
    required = [field for field in fields if field["required"]]
    names = [field["name"] for field in required or fields[:1]]
    values = " ".join(f"{name}=…" for name in names) or "--accept"
    return terminal.clean(f"agh session answer {session_id} {request_id} {values} (or --decline)")


class _Form:
    """A form that is being filled in, until it is answered elsewhere or the deadline is there."""

    def __init__(self, is_open: Callable[[], bool], deadline: float | None, dialog: Dialog) -> None:
        self._is_open, self._deadline, self._dialog = is_open, deadline, dialog

    def fill_in(self, question: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the decision and the values of the fields."""
        if question["mode"] == "url":
            remark(f"  link: {terminal.clean(question['url'])}")
            return self._agree("open it? [y]es, [n]o: "), {}
        fields = question["fields"]
        if not fields:
            return self._agree("accept? [y]es, [n]o: "), {}
        escapes = f"{' or '.join(_ESCAPES)} refuses, {_LATER} leaves the question open"
        remark(f"  ({escapes}; Enter skips optional fields)")
        content = {}
        for field in fields:
            value = self._ask_field(field)
            if value is not None:
                content[field["name"]] = value
        return "accepted", content

    def _agree(self, words: str) -> str:
        from agh.cli.approval import key_of

        while True:
            key = key_of(self._read(words, ("y", "n")), ("y", "n"))
            if key is not None:
                return "accepted" if key == "y" else "declined"

    def _ask_field(self, field: dict[str, Any]) -> Any:
        for line in describe_field(field):
            remark(f"  {terminal.one_line(line, LONGEST)}")
        while True:
            text = self._read(f"{terminal.one_line(field['name'], 100)}: ")
            if not text:
                if not field["required"] or field.get("default") is not None:
                    return field.get("default")
                remark("  an answer is required")
                continue
            try:
                return check_value(field, text)
            except ValueError as error:
                remark(f"  {terminal.one_line(str(error), 400)}")

    def _read(self, words: str, keys: tuple[str, ...] = ()) -> str:
        line = self._dialog.read(words, self._is_open, self._deadline, keys)
        text = _LATER if line is None else line.strip()
        if text in _ESCAPES:
            raise _Escape(_ESCAPES[text])
        if text == _LATER:
            raise _Escape(None)
        return text
