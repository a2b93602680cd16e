"""The loop: many tasks, one thread.

A task is a generator. It yields a number of seconds to sleep, or the id of a request it has sent, to get the
client's answer. Between any two steps the loop flushes its output and reads stdin, so it notices a cancel or
another request while a turn runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from agh_echo.kinds import Frame, Steps
from agh_echo.wire import Failure, Wire, parse

FOREVER = inf


class Cancelled(Exception):
    """Thrown into a waiting task when the client cancels it."""


class Task:
    """A generator that is being run, and what it waits for."""

    def __init__(self, steps: Steps, key: object) -> None:
        self.steps = steps
        self.key = key
        self.wake_at = 0.0
        self.awaited_id: str | None = None
        self.ignores_cancel = False


class Loop:
    """Runs the tasks, and passes frames between them and the client."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self._requests_sent = 0

    def run(self, handle: Callable[[Frame], None]) -> None:
        """Serve until the input ends. `handle` gets every frame that has a method."""
        lines: list[bytes] | None = []
        try:
            while lines is not None:
                for line in lines:
                    self._accept(line, handle)
                now = time.monotonic()
                for task in [task for task in self.tasks if task.wake_at <= now]:
                    self._step(task)
                self.wire.flush()
                lines = self.wire.receive(self._time_to_wait())
        finally:
            for task in self.tasks:
                task.steps.close()

    def start(self, steps: Steps, key: object = None) -> None:
        """Run a task up to its first wait. The loop does the rest."""
        task = Task(steps, key)
        self.tasks.append(task)
        self._step(task)

    def ask(self, method: str, params: Frame) -> str:
        """Send a request to the client and return its id. A task yields the id to get the answer."""
        self._requests_sent += 1
        request_id = f"echo-{self._requests_sent}"
        self.wire.send({"id": request_id, "method": method, "params": params})
        return request_id

    def cancel(self, task: Task) -> None:
        """Throw Cancelled into a task, unless it ignores that."""
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
            if task.awaited_id is not None and task.awaited_id == frame.get("id"):
                self._step(task, frame)
                break

    def _step(self, task: Task, value: object = None, error: Exception | None = None) -> None:
        """Run a task up to its next wait, giving it a value or throwing an error into it."""
        previous, self.current = self.current, task
        try:
            wait = task.steps.throw(error) if error else task.steps.send(value)
        except StopIteration:
            self.tasks.remove(task)
            return
        finally:
            self.current = previous
        task.awaited_id = wait if isinstance(wait, str) else None
        task.wake_at = FOREVER if isinstance(wait, str) else time.monotonic() + wait

    def _time_to_wait(self) -> float | None:
        """Return the seconds until a task must run; None if all wait for the client."""
        wake_at = min((task.wake_at for task in self.tasks), default=FOREVER)
        return None if wake_at == FOREVER else max(0.0, wake_at - time.monotonic())
