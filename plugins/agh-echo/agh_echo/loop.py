"""The loop: many tasks, one thread.

A task is a generator. It yields a number of seconds to sleep, or the id of a request it has sent, to
be woken with the client's answer. Between any two steps the loop flushes what was said and reads
stdin, so a cancel or another request is heard while a turn runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from agh_echo.kinds import Frame, Steps
from agh_echo.wire import Failure, Wire, parse

FOREVER = inf


class Cancelled(Exception):
    """Thrown into a task where it waits, when the client cancels it."""


class Task:
    def __init__(self, steps: Steps, key: object) -> None:
        self.steps = steps
        self.key = key
        self.wake = 0.0
        self.awaited: str | None = None
        self.ignores_cancel = False


class Loop:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self._asked = 0

    def run(self, handle: Callable[[Frame], None]) -> None:
        """Serve until the input ends; `handle` gets every frame that has a method."""
        lines: list[bytes] | None = []
        try:
            while lines is not None:
                for line in lines:
                    self._accept(line, handle)
                now = time.monotonic()
                for task in [task for task in self.tasks if task.wake <= now]:
                    self._step(task)
                self.wire.flush()
                lines = self.wire.receive(self._patience())
        finally:
            for task in self.tasks:
                task.steps.close()

    def start(self, steps: Steps, key: object = None) -> None:
        """Run a task up to its first wait; the loop does the rest."""
        task = Task(steps, key)
        self.tasks.append(task)
        self._step(task)

    def ask(self, method: str, params: Frame) -> str:
        """Send a request to the client; yield the id to get the answering frame."""
        self._asked += 1
        request_id = f"echo-{self._asked}"
        self.wire.send({"id": request_id, "method": method, "params": params})
        return request_id

    def cancel(self, task: Task) -> None:
        if not task.ignores_cancel:
            self._step(task, error=Cancelled())

    def _accept(self, line: bytes, handle: Callable[[Frame], None]) -> None:
        try:
            frame = parse(line)
        except Failure as failure:
            self.wire.send({"id": None, "error": failure.error})
            return
        if isinstance(frame.get("method"), str):
            handle(frame)
            return
        for task in self.tasks:
            if task.awaited is not None and task.awaited == frame.get("id"):
                self._step(task, frame)
                break

    def _step(self, task: Task, value: object = None, error: Exception | None = None) -> None:
        before, self.current = self.current, task
        try:
            wait = task.steps.throw(error) if error else task.steps.send(value)
        except StopIteration:
            self.tasks.remove(task)
            return
        finally:
            self.current = before
        task.awaited = wait if isinstance(wait, str) else None
        task.wake = FOREVER if isinstance(wait, str) else time.monotonic() + wait

    def _patience(self) -> float | None:
        wake = min((task.wake for task in self.tasks), default=FOREVER)
        return None if wake == FOREVER else max(0.0, wake - time.monotonic())
