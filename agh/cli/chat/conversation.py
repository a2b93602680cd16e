"""A session on a terminal: turns above, an input line below that is never deaf.

Promises: every row of the log from the position of joining on is shown once, in order. Prompts are sent in
the order in which they were typed. What the keeper has to answer is awaited in threads: keys always work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory

from agh.cli.approval import Line, styled
from agh.cli.chat import commands
from agh.cli.chat.completion import ChatCompleter, completes_while_typing
from agh.cli.chat.dialog import ChatDialog, Question
from agh.cli.chat.ending import Ending
from agh.cli.chat.files import WorkspaceFiles
from agh.cli.chat.follower import Follower
from agh.cli.chat.joining import Lease, prompts_of
from agh.cli.chat.keys import bindings
from agh.cli.chat.outbox import Outbox
from agh.cli.chat.screen import Screen
from agh.cli.chat.status_line import format_error, header, read_facts, status_text
from agh.cli.chat.threads import in_thread
from agh.cli.chat.turns import Turns
from agh.console import terminal, theme
from agh.console.output import write_text
from agh.console.pager import page
from agh.errors import AghError, SessionNotAttachable
from agh.home import Session
from agh.keeper import client
from agh.store import meta

SETTLED = 0.5  # seconds after which a SIGINT cannot have been for an editor
AGAIN = 3.0  # seconds in which a second Ctrl-C counts as one


class Conversation:
    """The chat with one session. Everything here runs in the event loop unless it says otherwise."""

    def __init__(self, session: Session, lease: Lease) -> None:
        self.session = session
        self._facts = read_facts(session)
        workspace = meta.read(session)["workspace_path"]
        completer = ChatCompleter(
            WorkspaceFiles(workspace),
            lambda: commands.all_commands(session),
            lambda name: commands.values_of(session, name),
        )
        self.buffer = Buffer(
            multiline=True,
            history=InMemoryHistory(list(map(terminal.clean, prompts_of(session)))),
            completer=completer,
            complete_while_typing=Condition(lambda: completes_while_typing(self.buffer.document)),
        )
        self.screen = Screen(
            self.buffer,
            bindings(self),
            stage=self._stage,
            status=self._status,
            question=self._question,
        )
        self.turns = Turns(session, lease, self.screen)
        self._notice, self._noted_at = "", 0.0
        self._pressed_at, self._cancelled = 0.0, ""
        self._outbox = Outbox(session, sent=self.turns.note_sent, refused=self._take_back)
        self._is_leaving = False
        self._idle = asyncio.Event()  # no cancel is on its way
        self._idle.set()
        self._held: list[str] = []
        self._dialog: ChatDialog | None = None

    async def run(self) -> Ending:
        """Converse until the user leaves or the session is taken over."""
        theme.ask_terminal()
        write_text(header(self._facts, self.screen.columns))
        try:
            result = await self.screen.run(self._converse)
        except EOFError:  # the terminal is gone
            result = None
        if self._dialog is not None:
            self._dialog.close()
        return result if isinstance(result, Ending) else Ending()

    async def _converse(self) -> None:
        """Follow the session and send what is typed, from when the input line is there."""
        self.screen.leave_on_signals()
        try:
            self._dialog = ChatDialog(
                self.session,
                write=self.screen.print_from_thread,
                lend=self._page_from_thread,
                post=self.screen.post,
                changed=self._take_held,
                typed=lambda: self.buffer.text,
            )
            self.turns.dialog = self._dialog
            self.screen.start_task(self._send_all())
            follower = Follower(self.session, self.turns.take, self.turns.join)
            await follower.follow()
        except AghError as error:
            if isinstance(error, SessionNotAttachable) or not self.turns.is_stopped:
                self.screen.leave(Ending(error=error))
        except Exception as error:
            self.screen.leave(Ending(error=error))

    # What the keys do.

    def accept(self) -> None:
        """Take the input: an answer, a command, or a prompt. Between two questions it is held."""
        text, self._notice, self._pressed_at = self.buffer.text, "", 0.0
        if text.strip() and not self.is_asked():
            self.buffer.append_to_history()
        self.buffer.reset()
        self._held.append(text)
        self._take_held()

    def _take_held(self) -> None:
        """Take lines that were typed, up to one that a question must come for first."""
        while self._held and not (self.is_asked() and self._question_asked() is None):
            self._take_line(self._held.pop(0))

    def _take_line(self, text: str) -> None:
        question = self._question_asked()
        is_command = text.strip() in commands.COMMANDS
        if question is not None and not is_command and question.accepts(text):
            question.give(text)
            return
        if not text.strip():
            return
        if text.startswith("/"):
            self.screen.start_task(self._run_command(text.rstrip()))
        else:
            self._outbox.post(text)

    def interrupt(self) -> None:
        """Cancel the turn that runs; the second time, leave. Without a turn, clear the input first."""
        if self.screen.is_away:
            return
        turn_id, now = self.turns.current_id, time.monotonic()
        is_second = now - self._pressed_at < AGAIN or (turn_id and turn_id == self._cancelled)
        if self.buffer.text and not turn_id:
            self.buffer.reset()
            self._notice = ""
            return
        if is_second:
            self._end(Ending())
            return
        self._pressed_at = now
        if turn_id:
            self._cancelled = turn_id
            self._idle.clear()
            self._note("cancelling; press Ctrl-C again to detach")
            self.screen.start_task(self._cancel(turn_id))
        else:
            self._note("press Ctrl-C again to leave")

    def interrupt_by_signal(self) -> None:
        """Do the same for SIGINT, unless it was meant for an editor or a pager."""
        if time.monotonic() - self.screen.returned_at > SETTLED:
            self.interrupt()

    def leave(self) -> None:
        """Leave the session; its agent keeps working. What is typed must be sent or cleared first."""
        if not self.buffer.text:
            self._end(Ending())
        elif self.buffer.document.is_cursor_at_the_end:
            self._note("Ctrl-C clears the line, then Ctrl-D leaves")
        else:
            self.buffer.delete()

    def edit(self) -> None:
        """Write the input in the user's editor."""
        self.screen.start_task(self._edit())

    def suspend(self) -> None:
        """Stop this process until the shell continues it."""
        self.screen.suspend()

    def is_asked(self) -> bool:
        """Tell whether the agent waits for an answer here."""
        return self._dialog is not None and self._dialog.is_asking

    def _question_asked(self) -> Question | None:
        """Return the question on the screen, unless it has got its answer."""
        question = self._dialog.question if self._dialog else None
        return None if question is None or question.answer.done() else question

    def answers(self, key: str) -> bool:
        """Answer with a single key; return False if it is only text."""
        question = self._question_asked()
        if question is None or not question.takes_key(key.lower()):
            return False
        question.give(key)
        return True

    # What they start.

    def _end(self, ending: Ending) -> None:
        """Leave once every prompt is queued and a cancel has been sent; at once if asked a second time."""
        if self._is_leaving or (self._outbox.is_empty and self._idle.is_set()):
            self.screen.leave(ending)
            return
        self._is_leaving = True
        self._note("still sending to the session; press Ctrl-D to leave now")
        self.screen.start_task(self._end_when_sent(ending))

    async def _end_when_sent(self, ending: Ending) -> None:
        await self._outbox.wait_empty()
        await self._idle.wait()
        self._is_leaving = False
        if not self.buffer.text:  # else the prompt was refused, and is back on the input line
            self.screen.leave(ending)

    async def _send_all(self) -> None:
        prompt = await self._outbox.send_all()
        self.screen.leave(Ending(prompt=prompt))

    def _take_back(self, text: str, error: AghError) -> None:
        """Say why a prompt was refused, and put it back on the input line."""
        self.screen.print(format_error(error))
        if not self.buffer.text:
            self.buffer.document = Document(text)
        self.screen.redraw()

    async def _cancel(self, turn_id: str) -> None:
        try:
            await in_thread(lambda: client.call(self.session, "cancel", turn_id=turn_id))
        except AghError:
            pass  # it has just ended: its end is about to be shown
        finally:
            self._idle.set()

    async def _run_command(self, text: str) -> None:
        try:
            prompt = commands.for_agent(self.session, text)
            if prompt is not None:
                self._outbox.post(prompt)
                return
            result = await in_thread(lambda: commands.run_command(self.session, text))
        except AghError as error:
            self.screen.print(format_error(error))
            return
        self._facts = read_facts(self.session)
        self.screen.print(result.text)
        if result.show is not None:
            await self.screen.lend(result.show)
        elif result.edits:
            await self._edit()
        elif result.ending is not None:
            self._end(result.ending)

    async def _edit(self) -> None:
        from agh.console.editor import edit

        try:
            text = await self.screen.lend(lambda: edit(self.buffer.text))
        except AghError as error:
            self.screen.print(format_error(error))
            return
        if text is not None:
            self.buffer.document = Document(text.rstrip("\n"))

    def _page_from_thread(self, lines: Iterable[Line]) -> None:
        """In the thread of the forms: show lines in the pager, and wait until it is left."""
        text = styled(lines)
        self.screen.run_from_thread(self.screen.lend(lambda: page(text)))

    # What is on the screen.

    def _stage(self, width: int) -> str:
        return self.turns.stage(width)

    def _question(self) -> str:
        question = self._question_asked()
        return question.words if question else ""

    def _status(self, width: int) -> str:
        if self.turns.facts_changed:
            self.turns.facts_changed = False
            self._facts = read_facts(self.session)
        state = self.turns.describe()
        if self._notice and time.monotonic() - self._noted_at < AGAIN:
            state = self._notice
        return status_text(self._facts, state, width)

    def _note(self, words: str) -> None:
        """Say something in the status line for a moment."""
        self._notice, self._noted_at = words, time.monotonic()
        self.screen.redraw()
