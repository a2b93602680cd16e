"""Following sessions: yield what is in their logs, then what is added to them, until they end.

The same code serves one session and many, live or stopped: nothing here talks to a keeper. A session has
ended when nobody holds its lock and all its events have been yielded.
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


class _Followed:
    """A session being followed, and how far it has been read."""

    def __init__(self, session: Session, after: int) -> None:
        self.session = session
        self.after = after
        self.reader = Reader(session)
        self.reopened = False

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
    positions: Iterable[tuple[Session, int]], query: Query, *, tick: float | None = None
) -> Iterator[Batch]:
    """Yield batches from sessions, given as (session, sequence to start after), until all have ended.

    With `tick`, also yield an empty batch without a session at least that often while nothing is new.
    """
    with Watch() as watch:
        followed: list[_Followed] = []
        try:
            for session, after in positions:
                watch.add(session)
                followed.append(_Followed(session, after))
            while followed:
                moved = False
                for log in list(followed):
                    # Checked before reading: rows committed before the lock was released are seen.
                    live = locks.is_held(log.session)
                    rows = log.next_page(query)
                    if rows is not None:
                        moved = True
                        if rows:
                            yield Batch(log.session, rows)
                    elif not live and not log.reopened:
                        log.reopened = moved = True
                        log.reopen()
                    elif not live:
                        followed.remove(log)
                        log.reader.close()
                        yield Batch(log.session, [])
                if moved:
                    watch.note_change()
                elif followed:
                    watch.wait(tick or IDLE)
                    if tick is not None:
                        yield Batch(None, [])
        finally:
            for log in followed:
                log.reader.close()
