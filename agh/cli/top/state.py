"""What the user of `agh top` sees: the sessions, the selected one, and what the user is asked. Does no I/O.

Promises: the selection belongs to a session, not to a line, so a list that changes never moves it to another
session while that session is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from agh.cli.session.table import Line, lay_out
from agh.cli.top.reader import Snapshot
from agh.core.display.brief import brief_of, format_model, format_name, last_line
from agh.core.named_tuple import NamedTuple
from agh.core.status import LIVE_STATES
from agh.sessions.requests.inbox import Entry
from agh.store.views import View


class Mode(Enum):
    """What the keys are for."""

    LIST = "list"
    FILTER = "filter"
    ANSWER = "answer"
    STOP = "stop"
    FORM = "form"
    HELP = "help"


@dataclass
class Answer:
    """A permission request on the screen. `allows` is which of the two answers the user is about to give."""

    entry: Entry
    allows: bool
    position: int = 0  # the first line on the screen

    @property
    def choices(self) -> dict[str, tuple[str, str]]:
        """Return the keys that answer: to each a verdict that the agent offers, and a word for it."""
        once, always = ("allow", "allow_always") if self.allows else ("deny", "deny_always")
        offered = (self.entry["request"] or {}).get("offered") or []
        choices = {"y": (once, "yes"), "a" if self.allows else "d": (always, "always")}
        return {key: choice for key, choice in choices.items() if choice[0] in offered}


class Layout(NamedTuple):
    """The table of some sessions for a width. It is kept: thousands would make every key slow."""

    views: list[View]
    width: int
    header: str
    rows: list[Line]


@dataclass
class State:
    """Everything that is drawn."""

    snapshot: Snapshot = field(default_factory=lambda: Snapshot([], {}, []))
    mode: Mode = Mode.LIST
    selected: str = ""  # an id
    filter: str = ""
    message: str = ""
    answer: Answer | None = None
    first: int = 0  # the session on the first line of the list
    views: list[View] = field(default_factory=list)  # those that fit the filter
    layout: Layout | None = None

    def update(self, snapshot: Snapshot) -> None:
        """Take what was read. A question to the user that makes no sense any more leaves the screen."""
        selected, self.snapshot = self.selected, snapshot
        self._apply_filter(self.index)
        if self.mode is Mode.STOP and (self.selected != selected or not self.is_live):
            self.mode = Mode.LIST
        if self.answer and self.answer.entry["key"] not in {
            entry["key"] for entries in snapshot.entries.values() for entry in entries
        }:
            self.answer, self.mode = None, Mode.LIST
            self.message = "answered elsewhere"

    def set_filter(self, text: str) -> None:
        """Show only sessions that have all these words in their line."""
        self.filter = text
        self._apply_filter(0)

    def _apply_filter(self, index: int) -> None:
        """Choose the sessions to show; if the selected one is not among them, select that at the index."""
        words = self.filter.lower().split()
        self.views = [view for view in self.snapshot.views if _fits(view, words)]
        if self.selected not in {view["id"] for view in self.views}:
            self.select(index)

    @property
    def index(self) -> int:
        """Return the place of the selected session in the list."""
        return next((n for n, view in enumerate(self.views) if view["id"] == self.selected), 0)

    @property
    def view(self) -> View | None:
        """Return the selected session."""
        return next((view for view in self.views if view["id"] == self.selected), None)

    @property
    def is_live(self) -> bool:
        """Tell whether the selected session is live."""
        return self.view is not None and self.view["state"] in LIVE_STATES

    @property
    def entries(self) -> list[Entry]:
        """Return the open requests of the selected session, oldest first; permissions before the rest."""
        entries = self.snapshot.entries.get(self.selected, [])
        return sorted(entries, key=lambda entry: entry["kind"] != "permission")

    def select(self, index: int) -> None:
        """Select the session in this place, or the nearest."""
        index = max(0, min(index, len(self.views) - 1))
        self.selected = self.views[index]["id"] if self.views else ""

    def select_new(self, session_id: str) -> None:
        """Select a session that the user has started, unless a key would now act on the selected one."""
        if self.mode is Mode.LIST and any(view["id"] == session_id for view in self.views):
            self.selected = session_id

    def move(self, lines: int) -> None:
        """Select the session this many lines further down."""
        self.select(self.index + lines)

    def lay_out(self, width: int) -> Layout:
        """Return the table of the sessions for a screen of this width."""
        if self.layout is None or self.layout.views is not self.views or self.layout.width != width:
            self.layout = Layout(self.views, width, *lay_out(list(map(brief_of, self.views)), width))
        return self.layout

    def scroll(self, height: int) -> list[View]:
        """Return the sessions that are on a screen with this many lines; the selected one is among them."""
        index = self.index
        self.first = max(0, min(self.first, index, len(self.views) - height))
        self.first = max(self.first, index - height + 1)
        return self.views[self.first : self.first + height]


def label(view: View) -> str:
    """Return what a session is called on the screen."""
    return format_name(view) or str(view["id"])


def _fits(view: View, words: list[str]) -> bool:
    if not words:
        return True
    values = (
        view.get("name"),
        view.get("title"),
        view["id"],
        view["badge"],
        view.get("agent_name"),
        format_model(view),
        view.get("workspace_path"),
        last_line(view),
    )
    text = "\n".join(str(value) for value in values if value).lower()
    return all(word in text for word in words)
