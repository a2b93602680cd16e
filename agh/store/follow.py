"""Following sessions: yield what is in their logs, then what is added to them, until they end.

The same code serves one session and many, live or stopped: nothing here talks to a keeper. A session has
ended when nobody holds its lock and all its events have been yielded. follow_home.py follows a whole home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agh.core.events import Row
from agh.home import Session
from agh.store import lock as locks
from agh.store.reader import Query, Reader
from agh.store.watch import IDLE, Watch


class Batch(NamedTuple):
    """Rows of one session, in order. No rows: the session has ended, or, without a session, a tick."""

    session: Session | None
    rows: list[Row]


class Followed:
    """A session being followed, and how far it has been read."""

    def __init__(self, session: Session, after: int) -> None:
        self.session = session
        self.after = after
        self.reader = Reader(session)
        self.reopened = self.ended = False

    def look(self, query: Query) -> Batch | None:
        """Return a batch of what is new, which may be empty, or None if nothing is.

        When the session has `ended`, the batch is empty and the log is closed.
        """
        # Checked before reading: rows committed before the lock was released are seen.
        live = locks.is_held(self.session)
        rows = self.next_page(query)
        if rows is None and live:
            return None
        if rows is None and not self.reopened:
            self.reopened = True
            self.reopen()
        elif rows is None:
            self.ended = True
            self.reader.close()
        return Batch(self.session, rows or [])

    def next_page(self, query: Query) -> list[Row] | None:
        """Return the next matching rows, or None if the log has nothing new. Skip rows that do not match."""
        until = self.reader.last_sequence()
        if until <= self.after:
            return None
        rows = self.reader.page(query, self.after, until)
        self.after = rows[-1].sequence if rows else until
        return rows

    def reopen(self) -> None:
        """Open the log again, to see rows that a writer killed in mid-commit left out of the WAL's index."""
        self.reader.close()
        self.reader = Reader(self.session)


def follow(
    positions: Iterable[tuple[Session, int]],
    query: Query,
    *,
    tick: float | None = None,
    output: int | None = None,
) -> Iterator[Batch]:
    """Yield batches from sessions, given as (session, sequence to start after), until all have ended.

    With `tick`, also yield an empty batch without a session at least that often while nothing is new. Raise
    BrokenPipeError when nobody reads the pipe `output` any more.
    """
    with Watch(output) as watch:
        followed: list[Followed] = []
        try:
            for session, after in positions:
                watch.add(session)
                followed.append(Followed(session, after))
            while followed:
                moved = False
                for log in list(followed):
                    batch = log.look(query)
                    if batch is None:
                        continue
                    moved = True
                    if log.ended:
                        followed.remove(log)
                    if log.ended or batch.rows:
                        yield batch
                if moved:
                    watch.note_change()
                elif followed:
                    watch.wait(tick or IDLE)
                    if tick is not None:
                        yield Batch(None, [])
        finally:
            for log in followed:
                log.reader.close()
