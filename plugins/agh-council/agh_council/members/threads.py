"""Waiting for several members at once. Each wait is a thread; what it reports comes out in the keeper's loop.

Only the loop's thread touches the council's log: the others talk to members and put reports into a box.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agh.keeper.loop import Loop


class Box:
    """Reports from threads, in the order in which they came."""

    def __init__(self, loop: Loop) -> None:
        self._reports: deque[tuple[str, Any]] = deque()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        loop.watch(self._reading, self._wake)

    def _wake(self) -> None:
        os.read(self._reading, 4096)

    def put(self, name: str, report: Any) -> None:
        self._reports.append((name, report))
        try:
            os.write(self._writing, b".")
        except BlockingIOError:
            pass  # the loop is awake already

    def take(self) -> tuple[str, Any] | None:
        return self._reports.popleft() if self._reports else None

    def close(self, loop: Loop) -> None:
        loop.forget(self._reading)
        os.close(self._reading)
        os.close(self._writing)

    def __bool__(self) -> bool:
        return bool(self._reports)


def start(work: Callable[[], None]) -> None:
    """Do some work beside the loop. A keeper that ends does not wait for it."""
    threading.Thread(target=work, daemon=True).start()


def gather(loop: Loop, works: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each of these gives, or the exception it ended with; all at the same time."""
    box = Box(loop)

    def do(name: str, work: Callable[[], Any]) -> None:
        try:
            box.put(name, work())
        except Exception as error:
            box.put(name, error)

    for name, work in works.items():
        start(partial(do, name, work))
    found: dict[str, Any] = {}
    while len(found) < len(works):
        loop.run_until(lambda: bool(box))
        while (report := box.take()) is not None:
            found[report[0]] = report[1]
    box.close(loop)
    return {name: found[name] for name in works}
