"""Threads for blocking work, off the event loop. Calls that wait for an agent have their own, so that they
cannot hold up a read. A read ends when its client leaves, the server stops, or it takes too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from agh.store.reader import this_thread

T = TypeVar("T")
READ_LIMIT = 30.0  # seconds
_stopping = threading.Event()


async def run_read(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Run a function that only reads files. Cancelled, it is abandoned, and its queries end by themselves."""
    abandoned = threading.Event()
    deadline = time.monotonic() + READ_LIMIT

    def run() -> T:
        this_thread.stop = lambda: abandoned.is_set() or _stopping.is_set() or time.monotonic() > deadline
        try:
            return function(*args, **named)
        finally:
            del this_thread.stop

    try:
        return await anyio.to_thread.run_sync(run, limiter=_get_limiter("read", 8), abandon_on_cancel=True)
    finally:
        abandoned.set()


def stop_reads() -> None:
    """End the queries that are running, and those to come: the server stops."""
    _stopping.set()


async def run_action(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Run a function that may wait for a keeper or an agent."""
    return await anyio.to_thread.run_sync(
        partial(function, *args, **named), limiter=_get_limiter("action", 64)
    )


@cache
def _get_limiter(name: str, threads: int) -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(threads)
