"""A turn on a capable terminal: Markdown as it streams, dim thinking, a line per tool, diffs and plans.

Finished blocks of Markdown are printed for good; only the block in progress is redrawn.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from agh.cli.look.paint import make_console
from agh.cli.look.painter import Painter
from agh.cli.look.prose import Prose, newest_lines
from agh.cli.look.turn_view import View
from agh.console import theme
from agh.core.events import Row

THOUGHT_LENGTH = 400  # of a thought in progress: its end
SPARE_LINES = 6  # of the screen, besides the block in progress


class RichView(View):
    def __init__(self, session_id: str, workspace: str | None = None) -> None:
        theme.ask_terminal()
        self._console = make_console()
        self._painter = Painter(session_id, self._console.print, workspace=workspace)
        self._start()

    def hold(self, row: Row) -> None:
        self._painter.hold(row)

    def show(self, row: Row) -> None:
        self._painter.show(row)

    def introduce(self, row: Row) -> None:
        self._painter.show(row, asks_next=True)

    def quote(self, line: str) -> None:
        self._painter.quote(line)

    def flush(self) -> None:
        self._painter.write_finished()
        self._draw()

    def pause(self) -> None:
        self.flush()
        self._live.update(Text(""))
        self._live.stop()

    def resume(self) -> None:
        self._start()

    def close(self) -> None:
        self._painter.settle()
        self._live.update(Text(""))
        self._live.stop()

    def _start(self) -> None:
        self._live = Live(console=self._console, transient=True, refresh_per_second=12)
        self._live.start()
        self._draw()

    def _draw(self) -> None:
        painter, parts = self._painter, list[RenderableType]()
        if painter.thought:
            parts.append(Text(painter.thought[-THOUGHT_LENGTH:], "thought"))
        if painter.text:
            # A block that is longer than the screen is seen at its end, and not painted as a whole each time.
            parts.append(Prose(newest_lines(painter.text, max(4, self._console.height - SPARE_LINES))))
        running = list(painter.running.values())
        parts.append(Spinner("dots", Text(running[-1] if running else "", "muted", overflow="ellipsis")))
        self._live.update(Group(*parts))
