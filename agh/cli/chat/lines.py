"""A session on a terminal that can only print lines: a prompt line, and each turn as it happens.

Promises that no event is lost or shown twice: the last turn, what happens from then on, and what happens
while this terminal waits at its prompt are read from one position in the log.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing
from typing import Any

from agh.cli.chat.joining import RECAP_ROWS, REQUESTS, Lease, check_lease, last_turn, prompts_of
from agh.cli.look.turn_view import View, answer_command, view_for
from agh.cli.turn import send_and_tell, show_turn
from agh.console import terminal
from agh.console.output import remark, write_text
from agh.core.events import TURN_END_TYPES, Row
from agh.core.markdown import plain
from agh.core.transcript import transcript
from agh.errors import AghError, KeeperDied, SessionNotAttachable, TurnInterrupted
from agh.home import Session
from agh.keeper import client
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Reader
from agh.store.views import session_view

PROMPT = "> "
INTERRUPT_INTERVAL = 0.1  # seconds


def converse(session: Session, lease: Lease) -> None:
    """Show the last turn, then read and send prompts until Ctrl-D."""
    conversation = Conversation(session, lease)
    conversation.show_last_turn()
    _remember_prompts(session)
    conversation.converse()


class Conversation:
    """A session on this terminal. `position` is the sequence of the last event that was shown."""

    def __init__(self, session: Session, lease: Lease) -> None:
        self.session, self.lease = session, lease
        self.position = 0
        self.loss: SessionNotAttachable | None = None  # somebody has taken the session over
        self._own_turns: set[str] = set()

    def show_last_turn(self) -> None:
        """Show the last turn; if it is running, until it ends."""
        running = client.call(self.session, "hello").get("turn_id")
        view = session_view(self.session)
        title = f"{view.get('name') or view['id']}  {view['badge']}"
        write_text(terminal.styled(terminal.clean(title), "title") + "\n")
        with Reader(self.session) as reader:
            turn_id, start, last = last_turn(reader, running)
            self.position = max(start - 1, last - RECAP_ROWS)
            if self.position > start - 1:
                hidden = self.position - start + 1
                name = terminal.clean(str(view.get("name") or view["id"]))
                write_text(f"… {hidden} earlier events of this turn: agh session transcript {name}\n")
        if running == turn_id and running:
            self._watch(turn_id)
            return
        with closing(view_for("human", view)) as shown, Reader(self.session) as reader:
            while rows := reader.page(EVERYTHING, self.position, last):
                for row in rows:
                    if self.see(row, shown):
                        shown.show(row)
                self.position = rows[-1].sequence

    def converse(self) -> None:
        """Read and send prompts until Ctrl-D. Raise SessionNotAttachable if somebody else takes over."""
        while True:
            try:
                with _Onlooker(self):
                    text = input(PROMPT)
            except EOFError:
                write_text("\n")
                return
            except KeyboardInterrupt:
                write_text("\n")
                if self.loss:
                    raise self.loss from None
                continue
            if text.strip():
                receipt = send_and_tell(self.session, [{"type": "text", "text": text}])
                self._own_turns.add(receipt["turn_id"])
                self._watch(receipt["turn_id"], receipt)

    def see(self, row: Row, view: View) -> bool:
        """Note that a row is shown now; return False if there is nothing to show.

        Raise SessionNotAttachable if it says that somebody has taken the session over.
        """
        self.position = row.sequence
        if row.type == "user_message" and row.turn_id not in self._own_turns:
            view.quote(self.quoted(row))
            return False
        check_lease(self.session, self.lease, row)
        return row.type not in ("session_attached", "session_detached")

    def quoted(self, row: Row) -> str:
        """Return a prompt that was not typed here as it would look if it had been."""
        return terminal.clean(f"{PROMPT}{row.parsed().get('text') or ''}".replace("\n", "\n  "))

    def _watch(self, turn_id: str, receipt: dict[str, Any] | None = None) -> None:
        """Show a turn. A turn that fails does not end the conversation; a keeper that dies does."""
        if receipt is None:
            with Reader(self.session) as reader:
                ids = reader.fetch("SELECT id FROM inputs WHERE turn_id = ?", [turn_id])
            receipt = {"turn_id": turn_id, "status": "dispatching", "input_id": ids[0][0] if ids else 0}
        try:
            show_turn(self.session, {**receipt, "after": self.position}, "human", on_row=self.see)
        except (KeeperDied, TurnInterrupted, SessionNotAttachable):
            raise
        except KeyboardInterrupt:
            pass
        except AghError as error:
            remark(f"agh: {error.message}")


def _remember_prompts(session: Session) -> None:
    """Fill the prompt line's history with the session's prompts."""
    import readline

    readline.clear_history()
    readline.set_auto_history(True)
    for text in prompts_of(session):
        if "\n" not in text:
            readline.add_history(terminal.clean(text))


class _Onlooker:
    """Shows what others do in the session while this terminal waits at its prompt."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        try:
            self._thread.start()
        except KeyboardInterrupt:
            self._over.set()
            raise

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(timeout=10)

    def _look(self) -> None:
        """Show rows in groups that end with a prompt, a request or a turn. The rest is left for later."""
        conversation, group = self._conversation, list[Row]()
        for _, rows in follow([(conversation.session, conversation.position)], EVERYTHING, tick=0.2):
            for row in rows:
                if self._over.is_set():
                    return
                group.append(row)
                if row.type in ("user_message", "session_attached", *REQUESTS, *TURN_END_TYPES):
                    self._print(group)
                    group = []
            if self._over.is_set():
                return

    def _print(self, rows: list[Row]) -> None:
        import readline

        conversation, last = self._conversation, rows[-1]
        text = terminal.clean(plain(transcript(row for row in rows if row.type != "user_message")))
        if last.type == "user_message":
            text += conversation.quoted(last) + "\n"
        elif last.type in REQUESTS and not last.parsed().get("decision"):
            text += answer_command(conversation.session.id, last.type, last.parsed()) + "\n"
        if text:
            write_text(f"\r\x1b[K{text}{PROMPT}{readline.get_line_buffer()}")
        try:
            conversation.see(last, View())
        except SessionNotAttachable as error:
            conversation.loss = error
            self._end_input()

    def _end_input(self) -> None:
        """Interrupt `input` until it has ended: it does not see a signal that comes just before it waits."""
        while not self._over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            self._over.wait(INTERRUPT_INTERVAL)
