"""A broadcast follows one session's log, once, for any number of listeners.

A thread follows the log with the code of `agh session events --follow` and keeps the newest rows in a window,
encoded as server-sent events. A listener is only a position in the log: inside the window it gets the same
bytes as all the others; behind the window it reads the log itself. So a slow listener uses no memory and
delays nobody, and every listener gets every row, in order.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from agh.core.events import Row, envelopes
from agh.core.named_tuple import NamedTuple
from agh.core.status import workspace_id
from agh.errors import AghError
from agh.home import Session
from agh.store import lock, meta
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Reader
from agh_serve import threads

WINDOW_BYTES = 8 << 20
WINDOW_ROWS = 2000  # the window starts with this many, for listeners that come later
BATCH_ROWS = 1000
TICK = 1.0
KEEP_ALIVE = 15.0
# Rows that come close together are sent together: each send costs per listener, and the agent needs the CPU.
PAUSE_PER_LISTENER, LONGEST_PAUSE = 0.0001, 0.02

EnvelopeFields = tuple[str, str | None, str | None]  # the session's id, its workspace's id and path


class FramedRow(NamedTuple):
    """A row, and the server-sent event that carries it."""

    row: Row
    frame: bytes


def read_envelope_fields(session: Session) -> EnvelopeFields:
    """Return what every envelope says of its session: its id, and its workspace's id and path."""
    fields = meta.read(session)
    return session.id, workspace_id(fields), fields.get("workspace_path")


def frame_rows(rows: list[Row], envelope_fields: EnvelopeFields) -> list[FramedRow]:
    return [
        FramedRow(row, f"id: {row.sequence}\nevent: {row.type}\ndata: {line}\n\n".encode())
        for row, line in zip(rows, envelopes(rows, *envelope_fields), strict=True)
    ]


class Broadcast:
    """One followed session. Everything but `_follow_log` runs in the event loop."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.listeners = 0
        self.meta_changes = 0
        self.ended = False
        self.failed = True  # until the log has been followed to its end
        self._loop = asyncio.get_running_loop()
        self._window: list[FramedRow] = []
        self._window_after: int | None = None  # the sequence that precedes the window
        self._window_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._keep_alive_timer = self._loop.call_later(KEEP_ALIVE, self._keep_alive)
        threading.Thread(target=self._follow_log, name=f"broadcast {session.id}", daemon=True).start()

    async def stream_batches(self, after: int) -> AsyncGenerator[list[FramedRow], None]:
        """Stream the rows after a sequence, in batches.

        An empty batch means that there is nothing yet, that the metadata may have changed, or that nothing
        has happened for a while.
        """
        is_first = True
        while True:
            if self._window_after is not None and after >= self._window_after:
                first = after - self._window_after
                batch = self._window[first : first + BATCH_ROWS]
            else:
                batch = await threads.run_read(_read_log, self.session, after)
                if not batch and self._has_rows_after(after):
                    continue  # they came while the log was read
            if not batch and self.ended:
                return
            if batch:
                after = batch[-1].row.sequence
            elif not is_first:
                waiter = self._loop.create_future()
                self._waiters.append(waiter)
                await waiter
                if self._has_rows_after(after):
                    continue
            is_first = False
            yield batch

    def _has_rows_after(self, after: int) -> bool:
        return self._window_after is not None and self._window_after + len(self._window) > after

    def wake_listeners(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        self.ended = True
        self._keep_alive_timer.cancel()
        self.wake_listeners()

    def _start_window(self, after: int) -> None:
        self._window_after = after
        self.wake_listeners()

    def _extend_window(self, framed_rows: list[FramedRow]) -> None:
        assert self._window_after is not None
        self._window += framed_rows
        self._window_bytes += sum(len(framed.frame) for framed in framed_rows)
        while self._window_bytes > WINDOW_BYTES:
            cut = len(self._window) // 2 + 1
            self._window_bytes -= sum(len(framed.frame) for framed in self._window[:cut])
            self._window_after += cut
            del self._window[:cut]
        self.wake_listeners()

    def _note_meta_change(self) -> None:
        self.meta_changes += 1
        self.wake_listeners()

    def _keep_alive(self) -> None:
        self._keep_alive_timer = self._loop.call_later(KEEP_ALIVE, self._keep_alive)
        self.wake_listeners()

    def _follow_log(self) -> None:
        """Follow the log until the session or the broadcast ends. Runs in a thread of its own."""
        try:
            envelope_fields = read_envelope_fields(self.session)
            stamp = _read_meta_stamp(self.session)
            with Reader(self.session) as reader:
                after = max(0, reader.last_sequence() - WINDOW_ROWS)
            self._call_in_loop(self._start_window, after)
            for session, rows in follow([(self.session, after)], EVERYTHING, tick=TICK):
                if self.ended or (session and not rows):
                    break
                if rows:
                    self._call_in_loop(self._extend_window, frame_rows(rows, envelope_fields))
                previous_stamp, stamp = stamp, _read_meta_stamp(self.session)
                if stamp != previous_stamp:
                    self._call_in_loop(self._note_meta_change)
                if rows:
                    time.sleep(min(LONGEST_PAUSE, self.listeners * PAUSE_PER_LISTENER))
            self.failed = False
        except (AghError, OSError):
            pass  # the next listener to read the log gets the error
        finally:
            self._call_in_loop(self.end)

    def _call_in_loop(self, callback: Any, *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            self.ended = True  # the server has ended


class Broadcasts:
    """The broadcasts that have listeners, one per session."""

    def __init__(self) -> None:
        self.closing = False
        self._by_session: dict[Session, Broadcast] = {}

    async def stream_batches(
        self, session: Session, after: int
    ) -> AsyncGenerator[tuple[Broadcast, list[FramedRow]], None]:
        """Stream as `Broadcast.stream_batches` does, until the session has stopped or the server ends."""
        while not self.closing:
            broadcast = self._by_session.get(session)
            if broadcast is None or broadcast.ended:
                broadcast = self._by_session[session] = Broadcast(session)
            broadcast.listeners += 1
            try:
                async with aclosing(broadcast.stream_batches(after)) as batches:
                    async for batch in batches:
                        if batch:
                            after = batch[-1].row.sequence
                        yield broadcast, batch
            finally:
                broadcast.listeners -= 1
                if not broadcast.listeners:
                    broadcast.end()
                    if self._by_session.get(session) is broadcast:
                        del self._by_session[session]
            if broadcast.failed or not lock.is_held(session):
                return

    def close(self) -> None:
        self.closing = True
        for broadcast in self._by_session.values():
            broadcast.end()


def _read_log(session: Session, after: int) -> list[FramedRow]:
    with Reader(session) as reader:
        rows = reader.page(EVERYTHING, after, reader.last_sequence())
        return frame_rows(rows, read_envelope_fields(session))


def _read_meta_stamp(session: Session) -> tuple[int, int]:
    """Return what changes whenever the session's metadata is written."""
    try:
        status = os.stat(os.path.join(session, meta.FILE))
    except OSError:
        return (0, 0)
    return status.st_ino, status.st_mtime_ns
