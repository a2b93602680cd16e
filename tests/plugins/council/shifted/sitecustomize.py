"""Loaded by every Python below a test that puts this directory on PYTHONPATH; acts in councils' keepers only:
the clock there is ahead by the seconds that stand in the file AGH_TEST_CLOCK. Only the deadlines of requests,
which come from processes with the true clock, are judged by that one."""

import os
import sys
import time


def shift(path: str) -> None:
    real = time.monotonic

    def monotonic() -> float:
        with open(path) as file:
            return real() + (0 if _called_by_server() else float(file.read() or 0))

    time.monotonic = monotonic


def _called_by_server() -> bool:
    return bool(sys._getframe(2).f_globals.get("__name__") == "agh.keeper.server")


if "agh_council.keeper" in sys.orig_argv and os.environ.get("AGH_TEST_CLOCK"):
    shift(os.environ["AGH_TEST_CLOCK"])
