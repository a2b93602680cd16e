"""A small event loop: descriptors, timers and signals, on epoll, or poll. One thread, no hidden tasks.

Not on `selectors`, which `socket` imports: see server.py.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from itertools import count

READ, WRITE = select.POLLIN, select.POLLOUT  # the same numbers for epoll
HAS_EPOLL = hasattr(select, "epoll")  # poll() fails if a limit of descriptors is lowered below their number


class Timer:
    """A callback that is still to come, unless it is cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """`on_failure` gets what a callback raises; without it, and if it raises again, `run_until` ends."""

    def __init__(self, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._poll = select.epoll() if HAS_EPOLL else select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._ties = count()
        self._on_failure = on_failure

    def watch(self, fd: int, callback: Callable[[], None], events: int = READ) -> None:
        """Call back whenever `fd` is ready; watching it again replaces the callback and the events."""
        (self._poll.modify if fd in self._callbacks else self._poll.register)(fd, events)
        self._callbacks[fd] = callback

    def forget(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once, after so many seconds."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._ties), timer))
        return timer

    def on_signals(self, callbacks: Mapping[int, Callable[[], None]]) -> None:
        """Call the callback of a signal from the loop, never from inside a handler."""
        reading, writing = os.pipe()
        for fd in (reading, writing):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in callbacks:
            signal.signal(number, lambda *_: None)

        def wake_up() -> None:
            for number in dict.fromkeys(os.read(reading, 512)):
                if number in callbacks:
                    callbacks[number]()

        self.watch(reading, wake_up)

    def run_until(self, condition: Callable[[], bool], limit: float | None = None) -> bool:
        """Serve until `condition()` holds; return False if `limit` seconds pass first."""
        deadline = None if limit is None else time.monotonic() + limit
        while not condition():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._step(deadline)
        return True

    def _step(self, deadline: float | None) -> None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        moments = [moment for moment in (deadline, self._timers[0][0] if self._timers else None) if moment]
        pause = max(0.0, min(moments) - time.monotonic()) if moments else None
        for fd, _ in self._poll.poll(pause if HAS_EPOLL or pause is None else pause * 1000):
            if (callback := self._callbacks.get(fd)) is not None:  # an earlier one may have forgotten it
                self._call(callback)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                self._call(timer.callback)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            if self._on_failure is None:
                raise
            self._on_failure(error)
