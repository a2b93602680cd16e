"""The terminal of the chat: text is printed above, the input line stays below.

Promises: what is printed reaches the terminal in one write together with the input line below it, so nothing
flickers, and a paste that arrives meanwhile stays one paste. Nothing is printed while an editor or a pager
has the terminal; it comes when that has ended. All methods but `print_from_thread` run in the event loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.containers import ConditionalContainer
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style

from agh.cli.chat.application import Input, Output, ResizingApplication, Stream
from agh.cli.chat.ending import Ending
from agh.cli.chat.tail import Tail, reflows
from agh.console import terminal

T = TypeVar("T")
INPUT_ROWS, MENU_ROWS, LEAST_STAGE_ROWS = 10, 8, 3
MAX_WIDTH = 10_000  # of a line that is not wrapped
PROMPT = "> "
_PASTE_OFF = "\x1b[?2004l"  # of bracketed paste, which Output leaves on
# Only styles that show on any background: no colour of its own for text or background.
_STYLE = Style.from_dict(
    {
        "status": "noreverse dim",
        "prompt": "bold",
        "question": "bold",
        "completion-menu": "noreverse bg:default fg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default fg:default dim",
        "completion-menu.meta.completion.current": "reverse",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "reverse",
    }
)


class Screen:
    """An application of prompt_toolkit with a stage for the block in progress, an input line and a status."""

    def __init__(
        self,
        buffer: Buffer,
        keys: KeyBindings,
        *,
        stage: Callable[[int], str],
        status: Callable[[int], str],
        question: Callable[[], str],
    ) -> None:
        self.buffer = buffer
        self._unprinted: list[str] = []
        self._is_away = False
        self._tail = Tail()
        self.returned_at = 0.0  # when another program gave the terminal back
        self._stage, self._question = stage, question
        stdout = sys.__stdout__
        assert stdout is not None
        self.output = Output(stdout, self._size, term=os.environ.get("TERM"), enable_cpr=False)
        windows = [
            self._optional(lambda: ANSI(self._stage_text()), lambda: bool(self._stage_text())),
            self._optional(
                lambda: [("class:question", "\n".join(terminal.wrap(question(), self.columns)))],
                lambda: bool(question()),
            ),
            Window(
                BufferControl(buffer),
                height=self._input_height,
                wrap_lines=True,
                dont_extend_height=True,
                get_line_prefix=self._prefix,
            ),
            CompletionsMenu(max_height=MENU_ROWS),
            Window(
                FormattedTextControl(lambda: [("class:status", status(self.columns))]),
                height=1,
                style="class:status",
            ),
        ]
        self.app = ResizingApplication(
            Layout(HSplit(windows), focused_element=buffer),
            key_bindings=keys,
            style=_STYLE,
            input=Input(sys.stdin),
            output=self.output,
            erase_when_done=True,
            min_redraw_interval=0.03,
            refresh_interval=0.5,
        )
        self.app.on_width = self._take_width
        self.app.ttimeoutlen = 0.05  # how long Escape waits for the rest of a sequence

    @property
    def columns(self) -> int:
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        return self.output.get_size().rows

    @property
    def is_away(self) -> bool:
        """Tell whether another program has the terminal."""
        return self._is_away

    async def run(self, ready: Callable[[], Awaitable[None]]) -> Any:
        """Run until `leave`; `ready` starts when the input line is there. Return what `leave` was given."""
        started = False

        def start(_: object) -> None:
            nonlocal started
            if not started:
                started = True
                self.app.create_background_task(_run(ready))

        self.app.after_render += start
        try:
            with self._standard_streams():
                return await self.app.run_async()
        finally:
            self.output.write_raw(_PASTE_OFF)
            self.output.flush()
            self._print_rest()

    def leave(self, result: object) -> None:
        """End the application with this result, unless it is ending."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=result)

    def leave_on_signals(self) -> None:
        """Leave when a signal ends this process, so that the terminal is as it was."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            ending = Ending(error=SystemExit(128 + number))
            asyncio.get_running_loop().add_signal_handler(number, self.leave, ending)

    def suspend(self) -> None:
        """Stop this process, and draw again when the shell continues it."""
        self.output.write_raw(_PASTE_OFF)
        self.app.suspend_to_background()

    def redraw(self) -> None:
        self.app.invalidate()

    def print(self, text: str) -> None:
        """Print clean text, with colours, above the input line."""
        if text:
            self._unprinted.append(text if text.endswith("\n") else text + "\n")
        if self._is_away or not self._unprinted or not self.app.is_running or self.app.is_done:
            return
        self.output.is_held = True
        try:
            self.app.follow_width()
            self.app.renderer.erase(leave_alternate_screen=False)
            text, self._unprinted = "".join(self._unprinted), []
            self._tail.add(text)
            self.output.write_raw(text)
        finally:
            self.output.is_held = False
        self.app._redraw()

    def print_from_thread(self, text: str) -> None:
        """Print from a thread that is not the loop's."""
        loop = self.app.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.print, text)
        else:
            self._unprinted.append(text)

    def post(self, function: Callable[[], None]) -> None:
        """From any thread: run a function in the loop, after what was printed before, and redraw."""
        loop = self.app.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)
            loop.call_soon_threadsafe(self.redraw)

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start something that may print or lend the terminal. If it fails, the chat ends with the reason."""

        async def run() -> None:
            try:
                await coroutine
            except Exception as error:
                self.leave(Ending(error=error))

        assert self.app.context is not None
        self.app.context.copy().run(self.app.create_background_task, run())

    def run_from_thread(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do the same from a thread that is not the loop's, and wait for its end."""
        loop, ended = self.app.loop, threading.Event()

        async def run() -> None:
            try:
                await coroutine
            finally:
                ended.set()

        if loop is not None:
            loop.call_soon_threadsafe(lambda: self.start_task(run()))
            ended.wait()

    async def lend(self, function: Callable[[], T]) -> T:
        """Give the terminal to a function that starts another program, such as a pager; return its result."""
        async with in_terminal():
            self._is_away = True
            self.output.write_raw(_PASTE_OFF)
            self.output.flush()
            try:
                return function()  # in this thread: what it starts may need signal handlers
            finally:
                self._is_away, self.returned_at = False, time.monotonic()
                self._print_rest()

    def _take_width(self, before: int) -> None:
        """Erase what is drawn and what was printed last, and print that again for the new width.

        A terminal that rewraps its lines has moved them all; others have cut them.
        """
        size, is_wrapped = self.output.get_size(), reflows()
        width = size.columns if is_wrapped else before
        drawn = self.app.rows_above_cursor(width if is_wrapped else MAX_WIDTH)
        above = min(drawn + self._tail.rows(width), size.rows)
        self.output.write_raw(f"\r\x1b[{above or 1}A\x1b[J")
        self.app.renderer.reset(leave_alternate_screen=False)
        self.output.write_raw(self._tail.fitting(size.columns, above - min(drawn, INPUT_ROWS)))

    def _print_rest(self) -> None:
        """Write what could not be printed, where there is no input line to care for."""
        self.output.write_raw("".join(self._unprinted))
        self.output.flush()
        self._unprinted = []

    def _notify(self, sequence: str) -> None:
        self.output.write_raw(sequence)
        self.output.flush()

    def _size(self) -> Size:
        try:
            size = os.get_terminal_size(sys.__stdout__.fileno())  # type: ignore[union-attr]
        except OSError:  # the terminal is gone
            return Size(rows=24, columns=80)
        return Size(rows=size.lines or 24, columns=size.columns or 80)

    def _optional(self, text: Callable[[], AnyFormattedText], is_shown: Callable[[], bool]) -> Any:
        window = Window(FormattedTextControl(text), wrap_lines=True, dont_extend_height=True)
        return ConditionalContainer(window, Condition(is_shown))

    def _stage_text(self) -> str:
        """Return the end of the block in progress: what fits above the input line."""
        text = self._stage(self.columns).rstrip("\n")
        limit = max(LEAST_STAGE_ROWS, self.rows - INPUT_ROWS - 4)
        lines = text.split("\n")
        return "\n".join(lines[-limit:])

    def _input_height(self) -> Dimension:
        most = max(1, min(INPUT_ROWS, self.rows - LEAST_STAGE_ROWS - 2))
        return Dimension(min=1, max=most)

    def _prefix(self, line: int, wrap_count: int) -> AnyFormattedText:
        return [("class:prompt", PROMPT if line == wrap_count == 0 else "  ")]

    @contextmanager
    def _standard_streams(self) -> Iterator[None]:
        """Let what anything prints come above the input line."""
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = Stream(self.print_from_thread, self._notify)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


async def _run(function: Callable[[], Awaitable[None]]) -> None:
    await function()
