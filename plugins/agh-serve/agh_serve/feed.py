"""Following a session once, for any number of listeners.

A thread follows the log with the code of `agh session events --follow` and keeps its newest rows, made
into server-sent events. A listener is a position: inside the window it is given what all others are
given; behind it, it reads the log itself. So a slow listener holds no memory and delays nobody, and
every listener gets every row, in order.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from agh.core.events import Row, envelopes
from agh.errors import AghError
from agh.store import lock, meta
from agh.store.follow import follow
from agh.store.reader import EVERYTHING, Reader
from agh_serve import threads

WINDOW_BYTES, WINDOW_ROWS = 8 << 20, 2000  # rows: with how many it begins, for those who come later
BATCH = 1000
TICK = 1.0
KEEP_ALIVE = 15.0
# Rows that come close together go out together: each send costs per listener, and the agent needs the CPU.
PAUSE_PER_LISTENER, LONGEST_PAUSE = 0.0001, 0.02


class Item(NamedTuple):
    row: Row
    frame: bytes


Place = tuple[str, str | None, str | None]


def place_of(directory: str) -> Place:
    """What an envelope says of where its session lives."""
    found = meta.read(directory)
    return os.path.basename(directory), found.get("workspace_id"), found.get("workspace_path")


def items(rows: list[Row], place: Place) -> list[Item]:
    return [
        Item(row, f"id: {row.sequence}\nevent: {row.type}\ndata: {line}\n\n".encode())
        for row, line in zip(rows, envelopes(rows, *place), strict=True)
    ]


class Feed:
    """One followed session. All but `_run` happens in the event loop."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.listeners = 0
        self.changes = 0  # of the metadata
        self.over = False
        self.failed = True  # until it has come to its end
        self._loop = asyncio.get_running_loop()
        self._window: list[Item] = []
        self._start: int | None = None  # the sequence after which the window begins
        self._bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._alarm = self._loop.call_later(KEEP_ALIVE, self._beat)
        threading.Thread(target=self._run, name=f"feed {directory}", daemon=True).start()

    async def batches(self, after: int) -> AsyncGenerator[list[Item], None]:
        """What comes after a sequence. An empty batch says that there is nothing yet, that the metadata
        may have changed, or that nothing has come for a while."""
        told = False
        while True:
            if self._start is not None and after >= self._start:
                first = after - self._start
                found = self._window[first : first + BATCH]
            else:
                found = await threads.read(_stored, self.directory, after)
                if not found and self._has(after):
                    continue  # it came while the log was read
            if not found and self.over:
                return
            if found:
                after = found[-1].row.sequence
            elif told:
                waiter = self._loop.create_future()
                self._waiting.append(waiter)
                await waiter
                if self._has(after):
                    continue
            told = True
            yield found

    def _has(self, after: int) -> bool:
        return self._start is not None and self._start + len(self._window) > after

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        self.over = True
        self._alarm.cancel()
        self.wake()

    def _begin(self, start: int) -> None:
        self._start = start
        self.wake()

    def _add(self, found: list[Item]) -> None:
        assert self._start is not None
        self._window += found
        self._bytes += sum(len(item.frame) for item in found)
        while self._bytes > WINDOW_BYTES:
            cut = len(self._window) // 2 + 1
            self._bytes -= sum(len(item.frame) for item in self._window[:cut])
            self._start += cut
            del self._window[:cut]
        self.wake()

    def _changed(self) -> None:
        self.changes += 1
        self.wake()

    def _beat(self) -> None:
        self._alarm = self._loop.call_later(KEEP_ALIVE, self._beat)
        self.wake()

    def _run(self) -> None:
        try:
            place = place_of(self.directory)
            stamp = _stamp(self.directory)
            with Reader(self.directory) as reader:
                after = max(0, reader.last_sequence() - WINDOW_ROWS)
            self._tell(self._begin, after)
            for directory, rows in follow([(self.directory, after)], EVERYTHING, tick=TICK):
                if self.over or (directory and not rows):
                    break
                if rows:
                    self._tell(self._add, items(rows, place))
                before, stamp = stamp, _stamp(self.directory)
                if stamp != before:
                    self._tell(self._changed)
                if rows:
                    time.sleep(min(LONGEST_PAUSE, self.listeners * PAUSE_PER_LISTENER))
            self.failed = False
        except (AghError, OSError):
            pass  # who reads the log next is told what is wrong with it
        finally:
            self._tell(self.end)

    def _tell(self, act: Any, *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *args)
        except RuntimeError:
            self.over = True  # the server has ended


class Feeds:
    """The sessions that someone follows now."""

    def __init__(self) -> None:
        self.closing = False
        self._open: dict[str, Feed] = {}

    async def batches(self, directory: str, after: int) -> AsyncGenerator[tuple[Feed, list[Item]], None]:
        """As `Feed.batches`, until the session is over and stays so, or the server ends."""
        while not self.closing:
            feed = self._open.get(directory)
            if feed is None or feed.over:
                feed = self._open[directory] = Feed(directory)
            feed.listeners += 1
            try:
                async with aclosing(feed.batches(after)) as batches:
                    async for found in batches:
                        if found:
                            after = found[-1].row.sequence
                        yield feed, found
            finally:
                feed.listeners -= 1
                if not feed.listeners:
                    feed.end()
                    if self._open.get(directory) is feed:
                        del self._open[directory]
            if feed.failed or not lock.is_held(directory):
                return

    def close(self) -> None:
        self.closing = True
        for feed in self._open.values():
            feed.end()


def _stored(directory: str, after: int) -> list[Item]:
    with Reader(directory) as reader:
        return items(reader.page(EVERYTHING, after, reader.last_sequence()), place_of(directory))


def _stamp(directory: str) -> tuple[int, int]:
    try:
        found = os.stat(os.path.join(directory, meta.FILE))
    except OSError:
        return (0, 0)
    return found.st_ino, found.st_mtime_ns
