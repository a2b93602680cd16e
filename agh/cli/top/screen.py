"""The screen of `agh top` on a terminal: shows the sessions, and does what the keys ask for.

Promises: the terminal is as before when it ends. It changes nothing about a session but what the user has
confirmed. What takes long runs beside the screen, which stays up to date.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

import click
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Float,
    FloatContainer,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput

from agh.cli.inbox.decide import answer_entry
from agh.cli.inbox.ring import ring_for_entry
from agh.cli.inbox.view import reference
from agh.cli.top.draw import draw, draw_hint, shorten
from agh.cli.top.form import Form, NewSession
from agh.cli.top.jobs import Jobs
from agh.cli.top.keys import key_bindings
from agh.cli.top.reader import SessionReader, Snapshot
from agh.cli.top.state import Answer, Mode, State, label
from agh.cli.top.terminal import Lines, make_application
from agh.console import theme
from agh.console.output import remark
from agh.errors import INTERRUPTED, AghError
from agh.home import session_of
from agh.sessions.stop import stop_session

PAUSE = 1.0  # seconds between two looks at the sessions
LEAST_PAUSE = 10  # times as long as a look took: a home with very many sessions costs a tenth of a processor


class Screen:
    """The screen and everything that can be done on it."""

    def __init__(self, reader: SessionReader) -> None:
        self.state = State()
        self.form = Form()
        self._reader = reader
        self._jobs = Jobs(self._end_job)
        self._filter = Buffer(multiline=False, on_text_changed=lambda _: self._change_filter())
        self._app: Application[list[str] | None] | None = None
        self._wake: asyncio.Event | None = None
        self._signal = 0
        self._news = ""  # what a job has to say
        self._started = ""  # the id of a session that a job has started

    def run(self) -> None:
        """Show the screen until the user quits."""
        theme.ask_terminal()
        self.state.update(self._reader.read())
        while (command := self._show()) is not None:
            self._run_command(command)
        self._jobs.finish()
        if self._signal:
            raise click.exceptions.Exit(128 + self._signal)

    # What the keys do.

    def quit(self, command: list[str] | None = None) -> None:
        """Leave the screen: for good, or to run a command of agh on the terminal."""
        assert self._app is not None
        if not self._app.is_done:
            self._app.exit(result=command)

    def attach(self) -> None:
        """Attach to the selected session."""
        if self.state.view:
            self.quit(["session", "attach", self.state.selected])

    def ask(self, *, allows: bool) -> None:
        """Show what the selected session asks, before it is allowed or denied."""
        if not self.state.entries:
            self.state.message = "this session has nothing in the inbox"
            return
        entry = self.state.entries[0]
        if entry["kind"] == "permission":
            self.state.answer = Answer(entry, allows)
            self.set_mode(Mode.ANSWER)
        elif entry["kind"] == "question" and allows:
            self.quit(["inbox", "answer", entry["key"]])
        elif entry["kind"] == "login" and allows:
            self.quit(["agent", "login", str(entry["agent_name"])])
        else:
            commands = [command.replace(entry["key"], reference(entry)) for command in entry["next"]]
            self.state.message = " or ".join(commands)

    def answer(self, key: str) -> None:
        """Answer the request on the screen, if the key is one of those that do."""
        if (answer := self.state.answer) is None or key not in answer.choices:
            return
        verdict, _ = answer.choices[key]
        self._jobs.start("answering", lambda: _answer(answer, verdict))
        self.back()

    def scroll(self, lines: int) -> None:
        """Move the request on the screen."""
        if self.state.answer:
            self.state.answer.position += lines

    def ask_to_stop(self) -> None:
        """Ask whether to stop the selected session."""
        if self.state.is_live:
            self.set_mode(Mode.STOP)
        elif self.state.view:
            self.state.message = f"{label(self.state.view)} is not live"

    def stop(self) -> None:
        """Stop the selected session."""
        if view := self.state.view:
            name, session = label(view), session_of(view["id"])

            def work() -> str:
                stop_session(session)
                return f"{name} is stopped"

            self.state.message = f"stopping {name}…"
            self._jobs.start(f"stopping {name}", work)
        self.set_mode(Mode.LIST)

    def open_form(self) -> None:
        """Ask what session to start."""
        self.form.clear()
        self.set_mode(Mode.FORM)

    def submit_form(self) -> None:
        """Start the session of the form."""
        request = self.form.value()
        if not os.path.isdir(request.directory):
            self.state.message = f"no such directory: {request.directory}"
            return
        words = f"starting {request.agent or 'a session'}"
        self.state.message = f"{words}…"
        self._jobs.start(words, lambda: self._start_session(request))
        self.set_mode(Mode.LIST)

    def back(self) -> None:
        """Return to the list; from the list, to all sessions."""
        if self.state.mode in (Mode.LIST, Mode.FILTER):
            self._filter.text = ""
        self.state.answer = None
        self.set_mode(Mode.LIST)

    def set_mode(self, mode: Mode) -> None:
        """Give the keys another meaning, and what they need the focus."""
        assert self._app is not None
        self.state.mode = mode
        layout = self._app.layout
        if mode is Mode.FILTER:
            layout.focus(self._filter)
        elif mode is Mode.FORM:
            layout.focus(self.form.text)
        else:
            layout.focus(self._lines)

    # How it runs.

    def _show(self) -> list[str] | None:
        """Show the screen until a key leaves it; return the command to run then, or None to quit."""
        self._app = app = make_application(self._layout(), key_bindings(self))
        self.set_mode(Mode.LIST)
        try:
            command: list[str] | None = app.run(pre_run=self._begin)
        except EOFError:  # the terminal is gone
            return None
        return command

    def _begin(self) -> None:
        assert self._app is not None
        self._wake = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            asyncio.get_running_loop().add_signal_handler(number, self._terminate, number)
        self._app.create_background_task(self._keep_reading())

    def _terminate(self, number: int) -> None:
        self._signal = number
        self.quit()

    def _layout(self) -> Layout:
        state = self.state
        self._lines = Window(Lines(lambda width, height: draw(state, width, height)))
        prefix = BeforeInput("/", style="class:title")
        fields = [
            ConditionalContainer(self.form.container(), Condition(lambda: state.mode is Mode.FORM)),
            ConditionalContainer(
                Window(BufferControl(self._filter, input_processors=[prefix]), height=1),
                Condition(lambda: state.mode is Mode.FILTER),
            ),
            ConditionalContainer(
                Window(Lines(lambda width, _: [draw_hint(state, width)]), height=1),
                Condition(lambda: state.mode is not Mode.FILTER),
            ),
        ]
        menu = Float(CompletionsMenu(max_height=8), xcursor=True, ycursor=True)
        return Layout(FloatContainer(HSplit([self._lines, *fields]), [menu]), self._lines)

    async def _keep_reading(self) -> None:
        """Look at the sessions every second, or when a job has ended."""
        assert self._wake is not None and self._app is not None
        loop, took = asyncio.get_running_loop(), 0.0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(PAUSE, took * LEAST_PAUSE))
            self._wake.clear()
            began = time.monotonic()
            try:
                self._update(await loop.run_in_executor(None, self._reader.read))
            except (AghError, OSError) as error:
                self.state.message = str(error)
            took = time.monotonic() - began
            self._end_jobs()
            self._app.invalidate()

    def _update(self, snapshot: Snapshot) -> None:
        had_answer = self.state.answer is not None
        self.state.update(snapshot)
        if had_answer and self.state.answer is None:
            self.set_mode(Mode.LIST)
        if snapshot.added:
            ring_for_entry(snapshot.added[-1])

    def _end_jobs(self) -> None:
        """Show what jobs have done, now that the sessions were read."""
        if self._started:
            self.state.select_new(self._started)
        self.state.message = self._news or self.state.message
        self._started = self._news = ""

    def _change_filter(self) -> None:
        self.state.set_filter(self._filter.text)

    def _start_session(self, request: NewSession) -> str:
        from agh.sessions.new import create
        from agh.sessions.prompt import send

        session, _ = create(agent=request.agent or None, workspace=request.directory)
        if request.text:
            send(session, [{"type": "text", "text": request.text}])
        self._started = session.id
        return f"started {session.id}"

    def _end_job(self, message: str) -> None:
        """Have the sessions read, then show what a job has to say; called in the job's thread."""
        self._news = message
        if self._app and self._app.loop:
            with suppress(RuntimeError):  # the screen has just been left
                self._app.loop.call_soon_threadsafe(self._redraw)

    def _redraw(self) -> None:
        """Look at the sessions, and draw the whole screen again: a plugin may have printed a warning."""
        if self._app and self._wake:
            self._app.renderer.clear()
            self._wake.set()

    def _run_command(self, words: list[str]) -> None:
        """Run a command of agh on the terminal; let the user read its error."""
        from agh.cli.main import run

        if run(words) not in (0, INTERRUPTED):
            remark("press Enter to return to agh top")
            with suppress(EOFError, KeyboardInterrupt):
                input()
        with suppress(AghError):
            self.state.update(self._reader.read())
        self.state.message = ""


def _answer(answer: Answer, verdict: str) -> str:
    receipt = answer_entry(answer.entry, verdict)
    return f"{receipt['decision']}: {shorten(answer.entry, receipt['about'])}"
