"""Loaded by every Python below `make races`: what happens at once on a fast machine happens late.

With LATE=metadata, keepers replace meta.json late, so that it lags behind the log. With LATE=processes,
keepers, their leashes and scripted agents start and exit late. A test or a command that counts on the usual
order of events fails.
"""

import atexit
import os
import sys
import time

METADATA = 0.04  # seconds
START, EXIT = 0.08, 0.08


def replace_late() -> None:
    replace = os.replace

    def late(source: str, target: str) -> None:
        if str(target).endswith("meta.json"):
            time.sleep(METADATA)
        replace(source, target)

    os.replace = late


def exit_late() -> None:
    leave = os._exit

    def late(code: int) -> None:
        time.sleep(EXIT)
        leave(code)

    os._exit = late
    atexit.register(time.sleep, EXIT)


_words = {*map(os.path.basename, sys.orig_argv)}
_is_keeper = any(word.startswith("agh.keeper") for word in _words)
if os.environ.get("LATE") == "metadata" and _is_keeper:
    replace_late()
elif os.environ.get("LATE") == "processes" and (_is_keeper or "agh_echo" in _words):
    time.sleep(START)
    exit_late()
