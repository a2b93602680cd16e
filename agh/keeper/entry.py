"""The process of a keeper of any kind: what it is given, whom it tells that it is ready, and how it ends.

`python -m MODULE DIR LOCK_FD READY_FD INTENT`: the session's directory, its held lock, a pipe to the command
that started it, and what that command wants, in JSON.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from agh.core.events import timestamp
from agh.errors import AghError, Bug
from agh.store.lock import Lock


class Ready:
    """The pipe to the command that started us: one line, then nothing."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def succeeded(self, hello: dict[str, Any]) -> None:
        self._tell({"ok": hello})

    def failed(self, error: AghError) -> None:
        self._tell({"error": error.for_relay()})

    def _tell(self, message: dict[str, Any]) -> None:
        if self._fd < 0:
            return
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        try:
            os.write(self._fd, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        except OSError:
            pass
        os.close(self._fd)
        self._fd = -1


def run(keep: Callable[[Lock, Ready, dict[str, Any]], None]) -> NoReturn:
    """Be a keeper whose story is `keep`, and end: what it did is on disk, so nothing has to be put away."""
    directory, lock_fd, ready_fd, intent = sys.argv[1:5]
    for fd in (lock_fd, ready_fd):
        os.set_inheritable(int(fd), False)
    os.chdir("/")
    ready, held = Ready(int(ready_fd)), Lock(int(lock_fd), directory)
    code = 0
    try:
        keep(held, ready, orjson.loads(intent))
    except AghError as error:
        log(f"{error.code}: {error.message}")
        held.release()  # whoever hears of the failure may try again at once
        ready.failed(error)
        code = error.exit
    except Exception as error:
        import traceback

        log(traceback.format_exc())
        ready.failed(Bug(f"{type(error).__name__}: {error}", hint=f"see {directory}/keeper.log"))
        code = Bug.exit
    os._exit(code)


def log(text: str) -> None:
    """A line in keeper.log."""
    print(f"{timestamp()} {text}", file=sys.stderr, flush=True)
