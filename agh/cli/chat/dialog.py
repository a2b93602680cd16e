"""What the agent asks, answered on the input line of the chat.

The forms run in a thread of their own, one after the other, and read their answers from here. A key answers
at once only on an empty line, and only when the question has been there for a moment: what a user is
already typing never approves anything.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet

from agh.cli.approval import Line, key_of, styled
from agh.cli.ask import QUESTION_ID, Dialog, ask_about
from agh.console.output import remark
from agh.errors import AghError
from agh.home import Session

HESITATION = 0.7  # seconds before a single key counts
TICK = 0.2


class Question:
    """A question on the screen: its words, the keys that answer it at once, and the answer to come."""

    def __init__(self, words: str, keys: Collection[str]) -> None:
        self.words, self.keys = words, frozenset(keys)
        self.since = time.monotonic()
        self.typed = ""  # what was on the input line when it came
        self.answer: Future[str] = Future()

    def takes_key(self, key: str) -> bool:
        """Tell whether this key on an empty line is an answer."""
        return key in self.keys and time.monotonic() - self.since >= HESITATION

    def accepts(self, text: str) -> bool:
        """Take a line; tell whether it is an answer. If the question is one of keys, another is a prompt."""
        if not self.keys:
            return True
        is_older, self.typed = bool(self.typed) and text.strip().startswith(self.typed), ""
        return not is_older and key_of(text, self.keys) is not None

    def give(self, text: str) -> None:
        """Answer the question."""
        if not self.answer.done():
            self.answer.set_result(text)


class ChatDialog(Dialog):
    """Reads answers from the chat's input line. Its methods run in the thread of the forms."""

    def __init__(
        self,
        session: Session,
        *,
        write: Callable[[str], None],
        lend: Callable[[Iterable[Line]], None],
        post: Callable[[Callable[[], None]], None],
        changed: Callable[[], None],
        typed: Callable[[], str],
    ) -> None:
        self.session = session
        self.question: Question | None = None
        self.is_asking = False  # also between two fields of a form
        self._write, self._lend, self._post, self._changed = write, lend, post, changed
        self._typed = typed  # what is on the input line
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._added: set[str] = set()
        self._is_over = False
        threading.Thread(target=self._ask_all, daemon=True).start()

    def add(self, request_id: str) -> None:
        """Ask this, once everything before it is answered; once only."""
        if request_id not in self._added:
            self._added.add(request_id)
            self._requests.put(request_id)

    def close(self) -> None:
        """Ask nothing more; what is open stays open."""
        self._is_over = True
        self._requests.put(None)

    def show(self, lines: Iterable[Line]) -> None:
        self._write(styled(lines))

    def discard_input(self) -> None:
        """Do nothing: see `Question.accepts`."""

    def page(self, lines: Iterable[Line]) -> None:
        self._lend(lines)

    def read(
        self, words: str, is_open: Callable[[], bool], deadline: float | None, keys: Collection[str] = ()
    ) -> str | None:
        question = Question(words, keys)
        self._post(lambda: self._put(question))  # after what was shown before it
        try:
            while is_open() and not self._is_over:
                try:
                    return question.answer.result(TICK)
                except NotYet:
                    continue
                except CancelledError:
                    return None
        finally:
            self._post(lambda: self._put(None))
        return None

    def _put(self, question: Question | None) -> None:
        """In the event loop: put a question on the screen, or take it away."""
        self.question = question
        if question is not None:
            question.since, question.typed, self.is_asking = time.monotonic(), self._typed().strip(), True
            self._changed()

    def _end(self) -> None:
        """In the event loop: note that a request is answered."""
        self.is_asking = False
        self._changed()

    def _ask_all(self) -> None:
        while (request_id := self._requests.get()) is not None:
            try:
                self._ask(request_id)
            except AghError as error:
                remark(f"agh: {error.message}")
            self._post(self._end)

    def _ask(self, request_id: str) -> None:
        if request_id.startswith(QUESTION_ID):
            from agh.cli.question_form import ask_and_tell
            from agh.console import terminal
            from agh.sessions.requests.questions import find_question

            question = find_question(self.session, request_id)
            if question is not None and question["status"] in ("pending", "orphaned"):
                about = terminal.one_line(f"? the agent asks: {question['message']}", 4000)
                self.show([Line(about, "warning")])
                ask_and_tell(self.session, request_id, None, self)
            return
        from agh.cli.approval import headline_lines
        from agh.sessions.requests.permissions import find_request

        request = find_request(self.session, request_id)
        if request is not None and request["status"] == "pending":
            self.show(headline_lines(request))
            ask_about(self.session, request_id, None, self)
