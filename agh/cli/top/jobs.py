"""Work that takes a while, such as stopping a session, done beside the screen.

Promises that what went wrong is shown without secrets.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from agh.adapters.redactions import redactor_for
from agh.console.output import remark
from agh.errors import AghError


class Jobs:
    """Runs each job in a thread of its own. `on_end` is called in that thread with what there is to say."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._threads: dict[threading.Thread, str] = {}

    def start(self, words: str, work: Callable[[], str]) -> None:
        """Start a job; `words` say what it does, and the work returns what it has done."""
        thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._threads[thread] = words
        thread.start()

    def finish(self) -> None:
        """Wait for the jobs that run, until Ctrl-C."""
        for thread, words in list(self._threads.items()):
            if thread.is_alive():
                remark(f"{words}… (Ctrl-C quits without waiting)")
                thread.join()

    def _run(self, work: Callable[[], str]) -> None:
        try:
            message = work()
        except Exception as error:
            message = _explain(error)
        self._threads.pop(threading.current_thread(), None)
        self._on_end(message)


def _explain(error: Exception) -> str:
    if isinstance(error, AghError):
        message = f"{error.message}. {error.hint}" if error.hint else error.message
    else:
        message = f"{type(error).__name__}: {error}"
    return str(redactor_for(os.environ, None, plugins=False).text(message))
