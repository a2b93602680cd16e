"""The processor time that an action takes: the best of three, since another program can only add to it."""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 3


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the least time of all tries."""
    return min(_time(action) for _ in range(TRIES))


def is_faster(action: Callable[[], object], limit: float) -> bool:
    """Tell whether the least time of all tries is below the limit; the first that is below it decides."""
    return any(_time(action) < limit for _ in range(TRIES))


def _time(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began
