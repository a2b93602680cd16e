"""Blocking work off the event loop. Calls that wait for an agent have threads of their own, so that they
cannot hold up a read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


async def read(work: Callable[..., T], *args: Any, **named: Any) -> T:
    return await anyio.to_thread.run_sync(partial(work, *args, **named), limiter=_limiter("read", 8))


async def act(work: Callable[..., T], *args: Any, **named: Any) -> T:
    return await anyio.to_thread.run_sync(partial(work, *args, **named), limiter=_limiter("act", 64))


@cache
def _limiter(name: str, most: int) -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(most)
