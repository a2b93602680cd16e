"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 20.0  # seconds; more than a slow machine needs
T = TypeVar("T")


def wait_until(condition: Callable[[], T], limit: float = PATIENCE, what: object = "") -> T:
    """Return the condition's first true value; fail the test if there is none within the limit."""
    end, pause = time.monotonic() + limit, 0.002
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {limit:g} s in vain: {what or condition}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return value
