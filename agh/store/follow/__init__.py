"""Following sessions: yield what is in their logs, then what is added to them, until they end.

The same code serves one session and many, live or stopped: nothing here talks to a keeper. A session has
ended when nobody holds its lock and all its events have been yielded.

Logs stay open while they are followed. If the process may not have that many descriptors, the logs beyond are
opened whenever they have changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from agh.core.events import Row
from agh.core.named_tuple import NamedTuple
from agh.home import Session
from agh.store import lock as locks
from agh.store.reader import FILE, Query, Reader
from agh.store.watch import IDLE, Watch

UNSETTLED = 100_000_000  # nanoseconds; a file that changed just now may change again unnoticed
FEW, SPARE = 10, 64  # logs that may stay open in any case; descriptors for other things than logs


class Batch(NamedTuple):
    """Rows of one session, in order. No rows: the session has ended, or, without a session, a tick."""

    session: Session | None
    rows: list[Row]


class Followed:
    """A session being followed, and how far it has been read.

    Its log stays open unless `others` logs use up the descriptors that this process may have; then it is
    opened whenever it has changed.
    """

    def __init__(self, session: Session, after: int, others: int = 0) -> None:
        self.session = session
        self.after = after
        self.reader = Reader(session)
        self.reopened = self.ended = False
        self._stays_open = others < FEW or others < _open_logs()
        self._stamp: tuple[int, ...] | None = None
        if not self._stays_open:
            self.reader.close()

    def look(self, query: Query) -> Batch | None:
        """Return a batch of what is new, which may be empty, or None if nothing is.

        When the session has `ended`, the batch is empty and the log is closed.
        """
        # Checked before reading: rows committed before the lock was released are seen.
        live = locks.is_held(self.session)
        if self._stays_open:
            return self._read(query, live)
        stamp = _log_stamp(self.session)
        if live and stamp == self._stamp:
            return None
        self.reader = Reader(self.session)
        try:
            batch = self._read(query, live)
        finally:
            self.close()
        self._stamp = stamp if batch is None else None
        return batch

    def close(self) -> None:
        self.reader.close()

    def _read(self, query: Query, live: bool) -> Batch | None:
        rows = self.next_page(query)
        if rows is None and live:
            return None
        if rows is None and not self.reopened:
            self.reopened = True
            self.reopen()
        elif rows is None:
            self.ended = True
            self.close()
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
    on_polling: Callable[[str], None] | None = None,
) -> Iterator[Batch]:
    """Yield batches from sessions, given as (session, sequence to start after), until all have ended.

    With `tick`, also yield an empty batch without a session at least that often while nothing is new. Raise
    BrokenPipeError when nobody reads the pipe `output` any more. `on_polling` is for `Watch`.
    """
    with Watch(output, on_polling) as watch:
        followed: list[Followed] = []
        try:
            for session, after in positions:
                watch.add(session)
                followed.append(Followed(session, after, len(followed)))
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
                log.close()


def _open_logs() -> int:
    """Return how many logs may stay open: each takes three descriptors, and some are for the rest of us."""
    import resource

    return (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE) // 3


def _log_stamp(session: Session) -> tuple[int, ...] | None:
    """Return a stamp that changes when rows are committed; None if it may be too early to tell."""
    stamp: list[int] = []
    for name in (FILE, f"{FILE}-wal"):
        try:
            info = os.stat(f"{session.directory}/{name}")
        except OSError:
            return None
        if time.time_ns() - info.st_mtime_ns < UNSETTLED:
            return None
        stamp += (info.st_ino, info.st_size, info.st_mtime_ns)
    return tuple(stamp)
