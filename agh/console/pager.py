"""Long text in the user's pager, as git does it: $PAGER, else less; nothing if it fits on the screen.

Promises: text that fits, or that has no pager to go to, is printed. Leaving the pager early is no failure.
Text must be cleaned before it comes here: a pager passes colours on to the terminal.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any

from agh.console import terminal
from agh.console.output import write_text

# How less and lv start unless the user says otherwise: end if it is one screen, keep colours and the screen.
DEFAULTS = {"LESS": "FRX", "LV": "-c"}
_SHELL_CHARACTERS = set("|&;<>()$`\\\"'*?[#~=%")


def page(text: str) -> None:
    """Show text, in the pager if it is longer than the screen, until the user leaves it."""
    with Pages() as pages:
        pages.write(text)


class Pages:
    """Takes text in pieces. The pager starts when the text gets longer than the screen.

    `is_over` says that the user has left the pager: nothing more needs to be made for it.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.is_over = False
        self._command = _pager_command() if enabled and terminal.is_fancy() else None
        self._room = _screen_lines() - 1 if self._command else 0
        self._text: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._handler: Any = None

    def __enter__(self) -> Pages:
        return self

    def write(self, text: str) -> None:
        """Show the text, or keep it until it is known whether it needs the pager."""
        if self._command is None:
            write_text(text)
            return
        if self._process is None:
            self._text.append(text)
            self._room -= text.count("\n")
            if self._room >= 0:
                return
            text = "".join(self._text)
            self._start()
        self._send(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            if self._command is not None:
                write_text("".join(self._text))
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass  # it was left before its end
        self._process.wait()
        signal.signal(signal.SIGINT, self._handler)

    def _start(self) -> None:
        sys.stdout.flush()
        # Ctrl-C belongs to the pager. A handler, unlike SIG_IGN, is not inherited by it.
        self._handler = signal.signal(signal.SIGINT, lambda *_: None)
        assert self._command is not None
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env={**DEFAULTS, **os.environ})

    def _send(self, text: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode(errors="replace"))
            self._process.stdin.flush()
        except OSError:
            self.is_over = True


def _pager_command() -> list[str] | None:
    """Return how to start the pager; None if the user wants none, or it is not there."""
    words = os.environ.get("PAGER", "less").strip()
    if words in ("", "cat"):
        return None
    if _SHELL_CHARACTERS & set(words):
        return ["/bin/sh", "-c", words]
    program, *arguments = shlex.split(words)
    path = shutil.which(program)
    return [path, *arguments] if path else None


def _screen_lines() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or 24
    except (OSError, ValueError):
        return 24
