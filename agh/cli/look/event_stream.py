"""The events of sessions as people follow them: the chunks of a message are joined into whole lines.

A line of a message is printed when it is complete, the rest of it when something else happens in the session.
Messages are never cut: long lines are wrapped at words.
"""

from __future__ import annotations

from datetime import datetime
from textwrap import wrap

from agh.cli.look.event_line import ROLES, stop_line, summary
from agh.console import theme
from agh.console.terminal import clean, cut, display_width, one_line, styled, width
from agh.core.events import Row
from agh.errors import AghError
from agh.home import Session
from agh.store import meta
from agh.store.views import stop_notice

CHUNKS = ("agent_message", "thought")
LEAST_TEXT = 30  # columns; with fewer, the head is on a line of its own
LONGEST = 4000
NAME_WIDTH = 16
_GAP = "  "


class EventStream:
    """Turns rows into lines. With `many` sessions, each line begins with the name of its session."""

    def __init__(self, *, many: bool) -> None:
        theme.ask_terminal()
        self._many = many
        self._names: dict[Session, str] = {}
        self._messages: dict[Session, _Message] = {}

    def lines(self, session: Session, rows: list[Row]) -> list[str]:
        """Return the lines that are complete with these rows; no rows mean that the session has stopped."""
        lines: list[str] = []
        if not rows:
            end = stop_line(self.name(session), stop_notice(session))
            return [*self._end_message(session), cut(one_line(end, LONGEST), width())]
        for row in rows:
            message = self._messages.get(session)
            if message and not message.continues_with(row):
                lines += self._end_message(session)
                message = None
            content = row.parsed()
            if row.type in CHUNKS:
                if message is None:
                    message = self._messages[session] = _Message(row)
                if complete := message.add(str(content.get("text") or content.get("title") or "")):
                    lines += self._format(session, message.row, complete, is_first=message.is_first())
            elif row.type == "user_message":
                lines += self._format(session, row, str(content.get("text") or ""))
            else:
                lines += self._format(session, row, summary(row.type, content), is_cut=True)
        return lines

    def _end_message(self, session: Session) -> list[str]:
        """Return what has come of a line that will not be completed, because something else comes now."""
        message = self._messages.pop(session, None)
        if message is None or not message.text.strip():
            return []
        return self._format(session, message.row, message.text, is_first=message.is_first())

    def _format(
        self, session: Session, row: Row, text: str, *, is_first: bool = True, is_cut: bool = False
    ) -> list[str]:
        """Return a text beside its head, or below it if there is no room; `is_cut` cuts it to one line."""
        name = f"{self._label(session)}{_GAP}" if self._many else ""
        kind = clean(row.type.removeprefix("transcript_"))
        head = f"{name}{_local_time(row.timestamp)}{_GAP}{kind:<13}"
        start = display_width(head) + len(_GAP)
        has_room = width() - start >= LEAST_TEXT
        indent = start if has_room else len(_GAP)
        room = max(10, width() - indent)
        pieces = [cut(one_line(text, LONGEST), room)] if is_cut else _wrap(clean(text), room)
        role = None if row.type in CHUNKS else ROLES.get(row.type)
        lines = [styled(piece, role) if role else piece for piece in pieces]
        margin = " " * indent
        if is_first and has_room:
            below = [f"{margin}{line}".rstrip() for line in lines[1:]]
            return [f"{styled(head, 'muted')}{_GAP}{lines[0]}".rstrip(), *below]
        lines = [f"{margin}{line}".rstrip() for line in lines]
        return [styled(cut(head.rstrip(), width()), "muted"), *filter(None, lines)] if is_first else lines

    def name(self, session: Session) -> str:
        """Return what a session is called: its name, or its id if it has none."""
        if session not in self._names:
            try:
                name = str(meta.read(session).get("name") or session.id)
            except AghError:
                name = session.id
            self._names[session] = one_line(name, 200)
        return self._names[session]

    def _label(self, session: Session) -> str:
        """Return the name, as wide as that of any session so far."""
        label = cut(self.name(session), NAME_WIDTH)
        widest = min(NAME_WIDTH, max(map(display_width, self._names.values())))
        return label + " " * (widest - display_width(label))


class _Message:
    """The chunks of a message that have come. `text` is what has not been printed."""

    def __init__(self, row: Row) -> None:
        self.row, self.text = row, ""
        self._id = row.parsed().get("message_id")
        self._lines = 0

    def continues_with(self, row: Row) -> bool:
        if (row.type, row.turn_id) != (self.row.type, self.row.turn_id):
            return False
        return row.parsed().get("message_id") in (self._id, None) or self._id is None

    def add(self, text: str) -> str:
        """Add a chunk; return the whole lines that are not printed yet."""
        complete, newline, self.text = (self.text + text).rpartition("\n")
        return complete + newline if complete.strip() or self._lines else ""

    def is_first(self) -> bool:
        """Tell whether these are the first lines of the message, from now on no longer."""
        self._lines += 1
        return self._lines == 1


def _wrap(text: str, room: int) -> list[str]:
    """Return the lines of a text, those that are too long wrapped at words."""
    lines = text.removesuffix("\n").split("\n")
    return [piece for line in lines for piece in wrap(line.expandtabs(4), room) or [""]]


def _local_time(at: str) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone():%H:%M:%S}"
    except ValueError:
        return at[11:19]
