"""Loaded by every Python below a test that puts this directory on PYTHONPATH: agh's clocks there are ahead by
the seconds in the file AGH_TEST_CLOCK. The deadlines of requests, which other processes set by the true
clock, and waits for other processes are judged by that one."""

import os
import sys
import time

_WITH_OTHERS = ("keeper.server", "keeper.client", "keeper.spawn", "sessions.start", "store.watch")


def shift(path: str) -> None:
    monotonic, wall = time.monotonic, time.time

    def ahead() -> float:
        if str(sys._getframe(2).f_globals.get("__name__")).removeprefix("agh.") in _WITH_OTHERS:
            return 0.0
        with open(path) as file:
            return float(file.read() or 0)

    time.monotonic = lambda: monotonic() + ahead()
    time.time = lambda: wall() + ahead()


if os.environ.get("AGH_TEST_CLOCK") and any("agh" in word for word in sys.orig_argv):
    shift(os.environ["AGH_TEST_CLOCK"])
