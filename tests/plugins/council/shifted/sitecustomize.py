"""Loaded by every Python below a test that puts this directory on PYTHONPATH; acts in councils' keepers only:
the clock there is ahead by the seconds that stand in the file AGH_TEST_CLOCK."""

import os
import sys
import time


def shift(path: str) -> None:
    real = time.monotonic

    def monotonic() -> float:
        with open(path) as file:
            return real() + float(file.read() or 0)

    time.monotonic = monotonic


if "agh_council.keeper" in sys.orig_argv and os.environ.get("AGH_TEST_CLOCK"):
    shift(os.environ["AGH_TEST_CLOCK"])
