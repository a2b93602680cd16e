"""A progress bar for work that takes long, on a terminal only.

It goes to stderr, appears after half a second, and is gone when the work is done; with stderr in a pipe,
a file or cron nothing is written and rich is not imported. What is written to stderr meanwhile stands
above the bar; results for stdout are best written after the loop.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 0.5


def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The items, one by one, while a bar says how many of `total` were dealt with."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        yield from items
        return
    bar, appears = None, time.monotonic() + PATIENCE
    try:
        for number, item in enumerate(items):
            if bar is not None:
                bar.update(bar.task_ids[0], completed=number)
            elif time.monotonic() >= appears:
                bar = _start(what, total, number)
            yield item
    finally:
        if bar is not None:
            bar.stop()


def _start(what: str, total: int | None, completed: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # stdout is data, and not ours
    )
    bar.add_task(what, total=total, completed=completed)
    bar.start()
    return bar
