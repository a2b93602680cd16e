"""Turns in the chat: finished blocks are printed above the input line, the one in progress is drawn there."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.spinner import Spinner
from rich.text import Text

from agh.cli.look.paint import Canvas
from agh.cli.look.painter import Painter
from agh.cli.look.prose import Prose
from agh.core.events import Row

FRAMES = 8  # drawings a second of the block in progress
THOUGHT_LENGTH = 400  # of a thought in progress: its end


class ChatView:
    """Paints the rows of turns as every other view does; `write` gets text that is final.

    `width` tells how wide the terminal is at any moment.
    """

    def __init__(
        self, session_id: str, workspace: str, write: Callable[[str], None], width: Callable[[], int]
    ) -> None:
        self._write, self._width = write, width
        self._parts: list[RenderableType] = []
        self._painter = Painter(session_id, self._parts.append, workspace=workspace)
        self._spinner = Spinner("dots")
        self._cache: tuple[object, str] = (None, "")

    def show(self, row: Row) -> None:
        """Take a row of a turn."""
        self._painter.show(row)

    def prompt(self, row: Row) -> None:
        """Take the prompt of a turn."""
        self._painter.prompt(row)

    def hold(self, row: Row) -> None:
        """Take a request that is asked elsewhere, or not at all: what is shown is its decision."""
        self._painter.hold(row)

    def flush(self) -> None:
        """Print what is finished."""
        self._painter.write_finished()
        self._print()

    def settle(self) -> None:
        """Print everything that has come."""
        self._painter.settle()
        self._print()

    def stage(self, width: int) -> str:
        """Return the block in progress, with a spinner below it."""
        painter = self._painter
        key = painter.text, painter.thought, tuple(painter.running), width, int(time.monotonic() * FRAMES)
        if self._cache[0] != key:
            self._cache = key, Canvas(width).paint(self._in_progress())
        return self._cache[1]

    def _in_progress(self) -> RenderableType:
        painter, parts = self._painter, list[RenderableType]()
        if painter.thought:
            parts.append(Text(painter.thought[-THOUGHT_LENGTH:], "thought"))
        if painter.text:
            parts.append(Prose(painter.text))
        running = list(painter.running.values())
        self._spinner.text = Text(running[-1] if running else "", "muted", overflow="ellipsis")
        parts.append(self._spinner)
        return Group(*parts)

    def _print(self) -> None:
        if self._parts:
            canvas = Canvas(self._width())
            text = "".join(map(canvas.paint, self._parts))
            self._parts.clear()
            self._write(text)
