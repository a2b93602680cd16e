"""Threads for blocking work, off the event loop. Calls that wait for an agent have their own, so that they
cannot hold up a read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


async def run_read(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Run a function that only reads files."""
    return await anyio.to_thread.run_sync(partial(function, *args, **named), limiter=_get_limiter("read", 8))


async def run_action(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Run a function that may wait for a keeper or an agent."""
    return await anyio.to_thread.run_sync(
        partial(function, *args, **named), limiter=_get_limiter("action", 64)
    )


@cache
def _get_limiter(name: str, threads: int) -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(threads)
