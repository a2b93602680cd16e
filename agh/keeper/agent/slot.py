"""The slot of an agent in a place that has room for few of them at a time, as a cluster has.

Promises: an agent that waits for its slot is not late, however long that takes. Whoever waits for the start
hears once that there is no slot yet, and prompts are queued until there is one.
"""

from __future__ import annotations

from collections.abc import Callable

from agh.adapters.launch import Launch
from agh.keeper.loop import Loop

PATIENCE = 5.0  # seconds; an agent that has no slot by then waits for it, though its place has not said so
TAIL = 1000  # bytes of stderr that may hold the beginning of a notice


class Slot:
    """Whether the agent still waits, by what its place prints on stderr."""

    def __init__(self, loop: Loop, launch: Launch, on_queued: Callable[[], None]) -> None:
        self.is_waiting = True
        self._launch, self._on_queued, self._tail = launch, on_queued, b""
        self._timer = loop.later(PATIENCE, self._queue)

    def take(self, data: bytes) -> None:
        """Look for a notice in what came on stderr."""
        if not self.is_waiting:
            return
        text = self._tail + data
        if self._launch.started_notice in text:
            self.end()
        elif self._launch.queued_notice and self._launch.queued_notice in text:
            self._queue()
        self._tail = text[-TAIL:]

    def end(self) -> None:
        """Note that the agent has its slot."""
        self.is_waiting = False
        self._timer.cancel()

    def _queue(self) -> None:
        self._timer.cancel()
        callback, self._on_queued = self._on_queued, lambda: None
        if self.is_waiting:
            callback()
