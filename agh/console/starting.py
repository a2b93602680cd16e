"""`starting claude…` with a spinner while a session starts, on a terminal.

It is drawn on stderr after half a second and erased when the start has ended. A terminal that cannot erase
gets one plain line. Never draws while something else is asked or printed in `aside`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from agh.console import terminal
from agh.console.output import Spinner
from agh.errors import AghError
from agh.home import Session
from agh.store import meta

PATIENCE, STEP = 0.5, 0.1
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Starting(Spinner):
    """A block in which a session may start: the one that is named, or the agent that `begin` names."""

    def __init__(self, session: Session | None = None) -> None:
        self._session, self._agent = session, ""
        self._begin_time = time.monotonic()
        self._can_erase = os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._is_drawn = False
        self._drawing = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Starting:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._thread.join()
        self._erase()

    def begin(self, agent: str) -> None:
        self._begin_time, self._agent = time.monotonic(), agent

    def aside(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with self._drawing:
                self._erase()
                return callback(*args)

        return call

    def _run(self) -> None:
        if self._end.wait(PATIENCE):
            return
        step = 0
        while not self._end.is_set():
            with self._drawing:
                seconds = time.monotonic() - self._begin_time
                if seconds >= PATIENCE and self._is_starting() and not self._draw(step, seconds):
                    return
            step += 1
            self._end.wait(STEP)

    def _is_starting(self) -> bool:
        """Tell whether the session starts, by its metadata: another command may have started it."""
        if self._session is None:
            return bool(self._agent)
        try:
            metadata = meta.read(self._session)
        except (AghError, OSError):
            return False
        if metadata["state"] == "starting":
            self._agent = self._agent or metadata["agent_name"]
            return True
        self._erase()
        return False

    def _draw(self, step: int, seconds: float) -> bool:
        """Draw the next picture; return False if the first was the last."""
        if self._end.is_set():
            return False
        words = terminal.one_line(f"starting {self._agent}…", max(10, terminal.width() - 12))
        if self._can_erase:
            text = f"\r\x1b[K{FRAMES[step % len(FRAMES)]} {words} {seconds:.0f} s"
        else:
            text = f"{words}\n"
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            return False
        self._is_drawn = self._can_erase
        return self._can_erase

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            try:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            except (OSError, ValueError):
                pass
