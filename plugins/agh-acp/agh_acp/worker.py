"""Threads that do the requests of one session in the order in which they came."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]


class Workers:
    """One thread for each key, started when it is first needed. Any thread may ask for another."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._queues: dict[str, SimpleQueue[Task | None]] = {}
        self._threads: list[threading.Thread] = []
        self._is_finishing = False

    def run(self, key: str, task: Task) -> None:
        """Run a task after those that have the same key."""
        with self._lock:
            if not self._is_finishing:
                if key not in self._queues:
                    self._queues[key] = SimpleQueue()
                    self.start(lambda: _work(self._queues[key]))
                self._queues[key].put(task)
                return
        task()  # by a task that is still being done: nothing else will come

    def start(self, task: Task) -> None:
        """Run a task now."""
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threading.Thread(target=task))
            self._threads[-1].start()

    def finish(self) -> None:
        """Wait for everything that was started."""
        with self._lock:
            self._is_finishing = True
            for queue in self._queues.values():
                queue.put(None)
        while threads := [thread for thread in self._threads if thread.is_alive()]:
            threads[0].join()


def _work(queue: SimpleQueue[Task | None]) -> None:
    while (task := queue.get()) is not None:
        task()
