"""A small event loop: descriptors, timers and signals, on `selectors`. One thread, no hidden tasks."""

from __future__ import annotations

import heapq
import os
import selectors
import signal
import time
from collections.abc import Callable
from itertools import count

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """`on_failure` is given what a callback raises, and may raise it again: that ends `run_until`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._ties = count()
        self.on_failure: Callable[[Exception], None] = _give_up

    def watch(self, fd: int, callback: Callable[[], None], events: int = READ) -> None:
        """Call back while `fd` is ready; watching again replaces what was watched for."""
        try:
            self._selector.modify(fd, events, callback)
        except KeyError:
            self._selector.register(fd, events, callback)

    def forget(self, fd: int) -> None:
        try:
            self._selector.unregister(fd)
        except KeyError:
            pass

    def later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._ties), timer))
        return timer

    def on_signal(self, numbers: tuple[int, ...], callback: Callable[[], None]) -> None:
        """Call back from the loop, never from inside a handler."""
        reading, writing = os.pipe()
        for fd in (reading, writing):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

        def woken() -> None:
            if set(os.read(reading, 512)) & set(numbers):
                callback()

        self.watch(reading, woken)

    def run_until(self, done: Callable[[], bool], limit: float | None = None) -> bool:
        """Serve until `done()`; False when `limit` seconds passed first."""
        deadline = None if limit is None else time.monotonic() + limit
        while not done():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._step(deadline)
        return True

    def _step(self, deadline: float | None) -> None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        moments = [moment for moment in (deadline, self._timers[0][0] if self._timers else None) if moment]
        pause = max(0.0, min(moments) - time.monotonic()) if moments else None
        for key, _ in self._selector.select(pause):
            if key.fd in self._selector.get_map():  # an earlier callback may have let it go
                self._call(key.data)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                self._call(timer.callback)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            self.on_failure(error)


def _give_up(error: Exception) -> None:
    raise error
