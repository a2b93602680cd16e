"""Following a whole home: what is in all logs, then what is added to them. This has no end of its own.

Only the logs of live sessions stay open. The others are read one after the other, and again when their
directories have changed: a keeper that starts creates files there. A new session is seen at once where the
system has inotify, one that starts again within a second, or a few if there are thousands.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from agh.core.events import Row
from agh.errors import DataDamaged
from agh.home import Session, sessions_path
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.follow import UNSETTLED, Batch, Followed
from agh.store.reader import Query, Reader
from agh.store.watch import IDLE, Watch

SHARE = 20  # looking at all directories takes at most this part of the time


def follow_home(
    query: Query,
    after: int,
    last: int | None,
    *,
    on_damage: Callable[[DataDamaged], None],
    output: int | None = None,
    on_polling: Callable[[str], None] | None = None,
) -> Iterator[Batch]:
    """Yield batches from all sessions, from those that start later too.

    With `last`, only the newest so many rows are yielded of what each session has at first. A batch without
    rows says that its session has ended. `on_damage` gets the error of a session that cannot be read. Raise
    BrokenPipeError when nobody reads the pipe `output` any more. `on_polling` is for `Watch`.
    """
    with Watch(output, on_polling) as watch:
        home = _Home(query, after, last, watch, on_damage)
        try:
            while True:
                moved = False
                for batch in home.look():
                    moved = True
                    yield batch
                if moved:
                    watch.note_change()
                else:
                    watch.wait()
        finally:
            home.close()


class _Home:
    """The sessions of this home: how far each has been read, and which of them are live."""

    def __init__(
        self,
        query: Query,
        after: int,
        last: int | None,
        watch: Watch,
        on_damage: Callable[[DataDamaged], None],
    ) -> None:
        self._query, self._after, self._last = query, after, last
        self._watch, self._on_damage = watch, on_damage
        self._positions: dict[str, int] = {}
        self._stamps: dict[str, int] = {}  # of the directories, when they were last looked at
        self._live: dict[str, Followed] = {}
        self._home_stamp = 0
        self._next_look = 0.0
        self._is_first_look = True

    def look(self) -> Iterator[Batch]:
        """Yield what is new; the first time, what is stored."""
        stamp = _stamp(sessions_path())
        if stamp != self._home_stamp or time.monotonic() >= self._next_look:
            if stamp and not self._home_stamp:
                self._watch.add(sessions_path())
            self._home_stamp = stamp
            for session, directory_stamp in self._changed():
                yield from self._look_at_directory(session, directory_stamp)
            self._is_first_look = False
        for log in list(self._live.values()):
            yield from self._look_at_live(log)

    def close(self) -> None:
        """Close all logs."""
        for log in self._live.values():
            log.close()

    def _changed(self) -> list[tuple[Session, int]]:
        """Return the sessions that are not live and whose directories have changed, with their stamps."""
        started, base = time.process_time(), sessions_path()
        changed = [
            (Session(session_id, directory), stamp)
            for session_id in sessions.session_ids()
            if session_id not in self._live
            and (stamp := _stamp(directory := f"{base}/{session_id}")) != self._stamps.get(session_id)
        ]
        pause = max(IDLE, SHARE * (time.process_time() - started))
        self._next_look = time.monotonic() + pause
        return changed

    def _look_at_directory(self, session: Session, stamp: int) -> Iterator[Batch]:
        self._stamps[session.id] = 0 if time.time_ns() - stamp < UNSETTLED else stamp
        try:
            yield from self._look_at_session(session)
        except DataDamaged as error:
            self._stamps[session.id] = stamp
            if os.path.isdir(session):  # else it was deleted
                self._on_damage(error)

    def _look_at_session(self, session: Session) -> Iterator[Batch]:
        """Yield what has not been read of a session; if it is live, leave that to the next look."""
        is_live = locks.is_held(session)
        rows: list[Row] = []
        if session.id not in self._positions:
            rows = self._find_position(session, is_live)
            if rows:
                yield Batch(session, rows)
        after = self._positions[session.id]
        if not is_live and _last_sequence(session) == after:
            if rows:
                yield Batch(session, [])
            return
        log = Followed(session, after, len(self._live) if is_live else 0)
        if is_live:
            self._watch.add(session)
            self._live[session.id] = log
            return
        with log.reader:
            has_rows = bool(rows)
            while (page := log.next_page(self._query)) is not None:
                self._positions[session.id] = log.after
                if page:
                    has_rows = True
                    yield Batch(session, page)
        if has_rows:
            yield Batch(session, [])

    def _find_position(self, session: Session, is_live: bool) -> list[Row]:
        """Note from where to follow a session that is new to us; return the rows to show before that."""
        last = self._last if self._is_first_look else None
        if last is None and not (self._is_first_look and not is_live and self._is_too_old(session)):
            self._positions[session.id] = self._after
            return []
        if last in (None, 0) and not is_live and (sequence := _last_sequence(session)) >= 0:
            self._positions[session.id] = sequence
            return []
        with Reader(session) as reader:
            self._positions[session.id] = position = reader.last_sequence()
            return reader.newest(self._query, last, self._after, position) if last else []

    def _is_too_old(self, session: Session) -> bool:
        """Tell whether a stopped session has nothing since the time that is asked for."""
        if self._query.since is None:
            return False
        metadata = meta.read(session)
        return (
            metadata["state"] == "stopped"
            and not metadata.get("imported")
            and (metadata.get("updated_at") or "~") < self._query.since
        )

    def _look_at_live(self, log: Followed) -> Iterator[Batch]:
        try:
            batch = log.look(self._query)
        except DataDamaged as error:
            log.close()
            log.ended = True
            if os.path.isdir(log.session):
                self._on_damage(error)
            batch = None
        self._positions[log.session.id] = log.after
        if log.ended:
            del self._live[log.session.id]
            self._watch.remove(log.session)
            self._stamps[log.session.id] = 0
        if batch is not None and (batch.rows or log.ended):
            yield batch


def _last_sequence(session: Session) -> int:
    """Return the last sequence of a session as its metadata knows it; -1 if only the log can tell."""
    metadata = meta.read(session)
    last = metadata.get("last_sequence")
    return last if isinstance(last, int) and metadata["state"] == "stopped" else -1


def _stamp(directory: str) -> int:
    """Return a stamp that changes when entries of the directory do; 0 if there is none."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0
