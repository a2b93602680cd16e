"""What a killed leash leaves below the keeper, and how it is ended.

A leash ends everything below it. If it is itself killed, its orphans become children of the keeper, which is
a subreaper like the leash: whatever they did to their environment, session or parents, they are found there.
What other leashes have below them is theirs, and a process that started before the leash was never below it.
The keeper of another session, which an `agh acp` below the leash has started, is spared as by the leash.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

from agh.keeper.leash import leash
from agh.keeper.leash.orphans import PROC

LIMIT = 5.0  # seconds
PAUSE = 0.005


def end_adopted(leashes: Collection[int], since: int) -> None:
    """Kill and reap what is below this process but below none of the leashes, started at `since` or later."""
    limit = time.monotonic() + LIMIT
    while (below := _find(leashes, since)) and time.monotonic() < limit:
        # Freeze them first, and look again: while one runs it may fork another.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below | _find(leashes, since):
                with suppress(OSError):
                    os.kill(pid, number)
        time.sleep(PAUSE)
        for pid in below:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _find(leashes: Collection[int], since: int) -> set[int]:
    """Return the pids of the adopted processes and of everything below them, zombies included."""
    children: dict[int, list[int]] = {}
    adopted: list[int] = []
    with suppress(OSError):
        for name in os.listdir(PROC):
            if not name.isdigit():
                continue
            with suppress(OSError, ValueError, IndexError):
                parent, start = _parent_and_start(name)
                children.setdefault(parent, []).append(int(name))
                is_adopted = parent == os.getpid() and int(name) not in leashes and start >= since
                if is_adopted and not leash.is_keeper(int(name)):
                    adopted.append(int(name))
    return set(adopted) | leash.descend(list(adopted), children)


def _parent_and_start(pid: str) -> tuple[int, int]:
    with open(f"{PROC}/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[1]), int(fields[19])
