"""Following sessions: what is in their logs, then what is committed, until they are over.

The same code serves one session and many, live or dead: nothing here talks to a keeper. A session is
over when nobody holds its lock and everything in its log was given out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agh.core.events import Row
from agh.store import lock
from agh.store.reader import Query, Reader
from agh.store.watch import IDLE, Watch


class Batch(NamedTuple):
    """Rows of one session in order; an empty batch says that the session is over (or is a tick)."""

    directory: str
    rows: list[Row]


class _Followed:
    def __init__(self, directory: str, after: int) -> None:
        self.directory = directory
        self.after = after
        self.reader = Reader(directory)
        self.reopened = False

    def step(self, query: Query) -> list[Row] | None:
        """The next page, or None when there is none; rows that do not match are passed over for good."""
        until = self.reader.last_sequence()
        if until <= self.after:
            return None
        rows = self.reader.page(query, self.after, until)
        self.after = rows[-1].sequence if rows else until
        return rows

    def reopen(self) -> None:
        """A writer killed in mid-commit leaves rows that the WAL has and its index lacks: see them."""
        self.reader.close()
        self.reader = Reader(self.directory)


def follow(
    positions: Iterable[tuple[str, int]], query: Query, *, tick: float | None = None
) -> Iterator[Batch]:
    """Batches from sessions given as (directory, sequence after which to begin), until all are over.

    With `tick` a batch with no directory and no rows comes at least that often, for a caller with a clock.
    """
    with Watch() as watch:
        open_now: list[_Followed] = []
        try:
            for directory, after in positions:
                watch.add(directory)
                open_now.append(_Followed(directory, after))
            while open_now:
                moved = False
                for one in list(open_now):
                    # Asked before the log is read: rows committed before the lock went free are seen.
                    alive = lock.is_held(one.directory)
                    rows = one.step(query)
                    if rows is not None:
                        moved = True
                        if rows:
                            yield Batch(one.directory, rows)
                    elif not alive and not one.reopened:
                        one.reopened = moved = True
                        one.reopen()
                    elif not alive:
                        open_now.remove(one)
                        one.reader.close()
                        yield Batch(one.directory, [])
                if moved:
                    watch.found()
                elif open_now:
                    watch.wait(tick or IDLE)
                    if tick is not None:
                        yield Batch("", [])
        finally:
            for one in open_now:
                one.reader.close()
