"""Talking to several members at once. Each conversation is a thread that reports to the keeper's loop.

Only the loop's thread touches the council's log: the other threads talk to members and queue their reports.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agh.keeper.loop import Loop


class ReportQueue:
    """Reports from threads, in the order of their arrival. A new one wakes the loop."""

    def __init__(self, loop: Loop) -> None:
        self._reports: deque[tuple[str, Any]] = deque()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        loop.watch(self._read_fd, self._drain)

    def _drain(self) -> None:
        os.read(self._read_fd, 4096)

    def put(self, sender: str, report: Any) -> None:
        self._reports.append((sender, report))
        try:
            os.write(self._write_fd, b".")
        except BlockingIOError:
            pass  # the pipe is full, so the loop is awake already

    def pop(self) -> tuple[str, Any] | None:
        """Remove and return the oldest report with its sender; None if there is none."""
        return self._reports.popleft() if self._reports else None

    def close(self, loop: Loop) -> None:
        loop.forget(self._read_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def __bool__(self) -> bool:
        return bool(self._reports)


def start(task: Callable[[], None]) -> None:
    """Run a task in a thread; the keeper does not wait for it when it exits."""
    threading.Thread(target=task, daemon=True).start()


def gather(loop: Loop, tasks: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Run the tasks at the same time; return the result of each, or the exception it raised."""
    queue = ReportQueue(loop)

    def run(name: str, task: Callable[[], Any]) -> None:
        try:
            queue.put(name, task())
        except Exception as error:
            queue.put(name, error)

    for name, task in tasks.items():
        start(partial(run, name, task))
    results: dict[str, Any] = {}
    while len(results) < len(tasks):
        loop.run_until(lambda: bool(queue))
        while (report := queue.pop()) is not None:
            name, result = report
            results[name] = result
    queue.close(loop)
    return {name: results[name] for name in tasks}
