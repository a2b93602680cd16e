"""Messages on their way to a client: threads put them in, the event loop takes them out.

Promises: order is kept. Whoever puts in more than the client reads has to wait, as with a pipe. What was
delivered last can be delivered again, so that a stream that breaks can continue where it was.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence

MOST_WAITING = 16 << 20  # bytes
MOST_DELIVERED = 4 << 20  # bytes that stay here


class Outbox:
    """One stream of messages to the client. Each message has a number, from 1."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = threading.Condition()
        self._ready = asyncio.Event()
        self._messages: deque[tuple[int, bytes]] = deque()
        self._last = self._delivered = 0  # numbers
        self._waiting_bytes = self._delivered_bytes = 0
        self._reader = 0
        self._is_closed = False

    def put(self, messages: Sequence[bytes]) -> None:
        """Put in messages, from a thread; wait while there are too many. A closed outbox drops them."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._waiting_bytes < MOST_WAITING)
            if self._is_closed:
                return
            for message in messages:
                self._last += 1
                self._messages.append((self._last, message))
                self._waiting_bytes += len(message)
        self._wake()

    def open(self) -> int:
        """Return the number of a new reader. Any other one ends: its connection may be dead."""
        self._reader += 1
        self._ready.set()
        return self._reader

    async def read(self, reader: int) -> list[tuple[int, bytes]]:
        """Wait for messages that were not delivered; return none if it is closed or has another reader."""
        while reader == self._reader:
            with self._changed:
                self._ready.clear()
                messages = [entry for entry in self._messages if entry[0] > self._delivered]
                if messages or self._is_closed:
                    return messages
            await self._ready.wait()
        return []

    def note_delivered(self, number: int) -> None:
        """Note that the client has all messages up to this one, and make room."""
        with self._changed:
            sizes = [len(data) for each, data in self._messages if self._delivered < each <= number]
            self._delivered = number
            self._waiting_bytes -= sum(sizes)
            self._delivered_bytes += sum(sizes)
            while self._delivered_bytes > MOST_DELIVERED and self._messages[0][0] <= number:
                self._delivered_bytes -= len(self._messages.popleft()[1])
            self._changed.notify_all()

    def rewind(self, number: int) -> bool:
        """Deliver everything after this number again; return False if it is no longer there."""
        with self._changed:
            first = self._messages[0][0] if self._messages else self._last + 1
            if not first - 1 <= number <= self._last:
                return False
            self._delivered = number
            sizes = {each: len(data) for each, data in self._messages}
            self._waiting_bytes = sum(size for each, size in sizes.items() if each > number)
            self._delivered_bytes = sum(sizes.values()) - self._waiting_bytes
        self._wake()
        return True

    def close(self) -> None:
        """Drop what is put in from now on, and let go of whoever waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ready.set)
        except RuntimeError:
            pass  # the loop has ended, and the client with it
