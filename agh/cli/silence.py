"""A line on the terminal when an agent is silent for long in a turn: it may be retrying by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

from agh.core.events import Row

FIRST = 20.0  # seconds; the next note comes after twice the time


class Silence:
    """Watches the rows of a turn, and says when nothing has come for long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last, self._next = clock(), FIRST
        self._tools: dict[str, str] = {}
        self._requests: set[str] = set()

    def hear(self, row: Row) -> None:
        """Take a row of the turn."""
        self._last, self._next = self._clock(), FIRST
        if row.type == "permission":
            content = row.parsed()
            change = self._requests.discard if content.get("decision") else self._requests.add
            change(str(content.get("request_id")))
        elif row.type in ("tool_call", "tool_result"):
            content = row.parsed()
            call = str(content.get("tool_call_id"))
            name = content.get("tool_name") or content.get("title") or self._tools.pop(call, "a tool")
            if row.type == "tool_call":
                self._tools[call] = str(name)
            else:
                self._tools.pop(call, None)

    def note(self) -> str | None:
        """Return what to say now; None if it is too early, or if a request for permission waits."""
        silent = self._clock() - self._last
        if silent < self._next or self._requests:
            return None
        self._next *= 2
        if self._tools:
            return f"{next(reversed(self._tools.values()))} has been running for {silent:.0f} s"
        return f"nothing from the agent for {silent:.0f} s; it may be retrying"
