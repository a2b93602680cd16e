"""The log of a live session, as its keeper writes it.

Everything that happens goes through `batch`: inside it events are recorded and acts are planned. When it
ends, the events are committed in one transaction, and only then are the acts run. So nothing is acted on that
is not on disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from agh.core.events import Draft, draft_of, timestamp
from agh.errors import StoreFailed
from agh.store.meta import Meta
from agh.store.writer import Writer

_OURS = nullcontext()


class _LostBefore(Exception):
    """Undoes a batch that would follow one that was lost."""


class Log:
    """Batches of events and acts. `on_failure` gets what an act raises; the acts after it still run.

    Once a batch could not be stored, nothing more is recorded and no act is run.
    """

    def __init__(self, writer: Writer, meta: Meta, on_failure: Callable[[Exception], None]) -> None:
        self.writer = writer
        self.failed = False  # a batch was lost: nothing may be recorded after it
        self._meta = meta
        self._on_failure = on_failure
        self._drafts: list[Draft] | None = None
        self._acts: list[Callable[[], None]] = []
        self._timestamp = ""  # shared by everything in the batch
        self._child: str | None = None  # the session of the agent's that speaks, if it is not ours

    @property
    def db(self) -> sqlite3.Connection:
        return self.writer.connection

    @property
    def last_sequence(self) -> int:
        sequence: int = self.writer.last_sequence
        return sequence

    @property
    def now(self) -> str:
        """Inside a batch: return the time that its events have."""
        return self._timestamp

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Record and plan inside; at the end commit, then act. A batch inside a batch joins it."""
        if self._drafts is not None:
            yield
            return
        self._drafts, self._acts, self._timestamp = [], [], timestamp()
        try:
            with self.writer.transaction():
                yield
                if self.failed:
                    raise _LostBefore
                self.writer.store(self._drafts)
        except _LostBefore:
            return
        except StoreFailed:
            self.failed = True
            raise
        finally:
            self._drafts = None
        acts, self._acts = self._acts, []
        for act in acts:
            try:
                act()
            except Exception as error:
                self._on_failure(error)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside a batch: undo what is recorded, planned and stored in here if it fails."""
        assert self._drafts is not None, "a step is part of a batch"
        drafts, acts = len(self._drafts), len(self._acts)
        self.db.execute("SAVEPOINT step")
        try:
            yield
        except Exception as error:
            if is_fatal(error):
                raise
            self.db.execute("ROLLBACK TO step")
            self.db.execute("RELEASE step")
            del self._drafts[drafts:], self._acts[acts:]
            raise
        self.db.execute("RELEASE step")

    def record(
        self, type: str, *, turn_id: str = "", raw: bytes | memoryview | None = None, **fields: Any
    ) -> None:
        """Inside a batch: record an event of this type."""
        speaker = self._meta.get("acp_session_id")
        if self._child is not None:
            fields["parent"], speaker = speaker, self._child
        self.add(draft_of(type, turn_id, speaker, self._timestamp, fields, raw))

    def as_child(self, child: str | None) -> AbstractContextManager[None]:
        """Record what happens in here as that of a child session of the agent's; None is our own."""
        return _OURS if child is None else self._as_child(child)

    @contextmanager
    def _as_child(self, child: str) -> Iterator[None]:
        before, self._child = self._child, child
        try:
            yield
        finally:
            self._child = before

    def add(self, *drafts: Draft) -> None:
        """Inside a batch: record events that are already drafted."""
        assert self._drafts is not None, "events are recorded inside a batch"
        self._drafts += drafts

    def then(self, act: Callable[[], None]) -> None:
        """Run this once everything recorded in the batch is on disk."""
        self._acts.append(act)


def is_fatal(error: Exception) -> bool:
    """Tell whether nothing can be recorded any more. A value that SQLite rejects is not fatal."""
    if isinstance(error, sqlite3.DatabaseError):
        return not isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError)
    return isinstance(error, StoreFailed)
