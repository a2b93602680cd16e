"""The sessions and their open requests, read again and again for `agh top`.

Promises: it reads what `agh list` and `agh inbox` read, in the same way. It asks the keepers whether they
respond only now and then, because each of them wakes up for that.
"""

from __future__ import annotations

import time

from agh.cli.session.table import needs_you
from agh.console import terminal
from agh.core.named_tuple import NamedTuple
from agh.core.status import NOT_RESPONDING
from agh.sessions.listing import select
from agh.sessions.requests.inbox import Entry, Inbox
from agh.store.views import View

ASK_EVERY = 10.0  # seconds between two questions to every keeper
FIRST_QUESTION = 0.5  # not before the first screen, which a stuck keeper would delay by two seconds


class Snapshot(NamedTuple):
    """All sessions at a moment, those that need you first, and the open requests of each, by its id.

    `added` has those that are new since the last snapshot.
    """

    views: list[View]
    entries: dict[str, list[Entry]]
    added: list[Entry]


class SessionReader:
    """Reads snapshots. `everything` includes old and archived sessions."""

    def __init__(self, *, everything: bool = False, workspace: str | None = None) -> None:
        self._everything, self._workspace = everything, workspace
        self._inbox = Inbox()
        self._keys: set[str] | None = None
        self._holder = terminal.default_holder()
        self._stuck: set[str] = set()
        self._next_question = time.monotonic() + FIRST_QUESTION

    def read(self) -> Snapshot:
        """Read all sessions."""
        views = self._select()
        views.sort(key=lambda view: not needs_you(view["badge"]))
        ids = {view["id"] for view in views}
        waiting = [entry for entry in self._inbox.entries() if entry["session_id"] in ids]
        entries: dict[str, list[Entry]] = {}
        for entry in waiting:
            entries.setdefault(entry["session_id"], []).append(entry)
        before, self._keys = self._keys, {entry["key"] for entry in waiting}
        added = [] if before is None else [entry for entry in waiting if entry["key"] not in before]
        return Snapshot(views, entries, added)

    def _select(self) -> list[View]:
        asks = time.monotonic() >= self._next_question
        views = select(
            everything=self._everything,
            resumable=False,
            workspace=self._workspace,
            state=None,
            badge=None,
            agent=None,
            holder=self._holder,
            asks_keepers=asks,
        )
        if asks:
            self._next_question = time.monotonic() + ASK_EVERY
            self._stuck = {view["id"] for view in views if view["badge"] == NOT_RESPONDING["badge"]}
        else:
            for view in views:
                if view["id"] in self._stuck:
                    view |= NOT_RESPONDING
        return views
