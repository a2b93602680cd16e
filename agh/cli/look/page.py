"""A conversation of the past, painted as it was when it was live."""

from __future__ import annotations

from rich.console import RenderableType

from agh.cli.look.paint import Canvas
from agh.cli.look.painter import Painter
from agh.cli.look.prose import Prose, split_blocks
from agh.console import terminal, theme
from agh.console.pager import Pages
from agh.core.events import CHAT_TYPES, MARKER_TYPES, TURN_END_TYPES, Row
from agh.home import Session
from agh.store import meta
from agh.store.reader import Query, Reader

_REQUESTS = ("permission", "question")
_PAINTED = (*CHAT_TYPES, "plan", *_REQUESTS, *MARKER_TYPES, *TURN_END_TYPES)


class _PagerLeft(Exception):
    """Says that nothing more needs to be painted."""


def show_conversation(session: Session, *, full: bool, use_pager: bool) -> None:
    """Show a session's conversation on the terminal; `full` hides nothing of what tools returned."""
    theme.ask_terminal()
    with Pages(enabled=use_pager) as pages, Reader(session) as reader:
        canvas = Canvas()

        def write(part: RenderableType) -> None:
            pages.write(canvas.paint(part))
            if pages.is_over:
                raise _PagerLeft

        workspace = meta.read(session).get("workspace_path")
        painter = Painter(session.id, write, full=full, workspace=workspace)
        try:
            for row in reader.rows(Query(types=_PAINTED)):
                _show(painter, row)
            painter.settle()
        except _PagerLeft:
            pass


def show_answer(text: str, *, use_pager: bool) -> None:
    """Show a message of the agent on the terminal."""
    theme.ask_terminal()
    with Pages(enabled=use_pager) as pages:
        blocks, rest = split_blocks(terminal.clean(text) + "\n")
        canvas = Canvas()
        for number, block in enumerate([*blocks, rest]):
            pages.write(("\n" if number else "") + canvas.paint(Prose(block)))


def _show(painter: Painter, row: Row) -> None:
    """Paint a row of the past: a request by its decision, the end of a turn if it is not the usual one."""
    content = row.parsed() if row.type in (*_REQUESTS, *TURN_END_TYPES) else {}
    if row.type == "user_message":
        painter.prompt(row)
    elif row.type in _REQUESTS and not content.get("decision"):
        painter.hold(row)
    elif row.type == "error":
        painter.note(str(content.get("error") or "the turn failed"), "✗", "error")
    elif row.type == "done":
        painter.settle()
        if content.get("stop_reason") not in (None, "end_turn"):
            painter.note(f"the turn ended: {content['stop_reason']}", "·", "muted")
    else:
        painter.show(row)
