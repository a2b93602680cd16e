"""A progress bar for long work, on a terminal only.

It is drawn on stderr after half a second and erased when the work is done; if stderr is a pipe or a file,
nothing is written and rich is not imported. Other output to stderr appears above the bar; write results to
stdout after the loop.
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
    """Yield the items one by one while a bar shows how many of `total` are done."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        yield from items
        return
    bar, start_time = None, time.monotonic() + PATIENCE
    try:
        for number, item in enumerate(items):
            if bar is not None:
                bar.update(bar.task_ids[0], completed=number)
            elif time.monotonic() >= start_time:
                bar = _start_bar(what, total, number)
            yield item
    finally:
        if bar is not None:
            bar.stop()


def _start_bar(what: str, total: int | None, completed: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # stdout is for results only
    )
    bar.add_task(what, total=total, completed=completed)
    bar.start()
    return bar
