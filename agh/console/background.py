"""The colour of the terminal's background, asked with OSC 11.

Promises to return within the limit, to leave the terminal's modes as they were, and to ask nothing if
somebody has already typed, or if this is not the foreground job: the answer would be taken for input.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty

LIMIT, REMOTE_LIMIT = 0.25, 1.0  # seconds; a terminal answers within milliseconds, unless it is far away
# The second question is one that every terminal answers: its answer says that there is none to the first.
_QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
_COLOUR = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_END = re.compile(rb"\x1b\[\?[0-9;]*c")
_WEIGHTS = (0.299, 0.587, 0.114)  # how bright red, green and blue look


def ask() -> str | None:
    """Return `light` or `dark`, as the terminal says; None if it does not."""
    try:
        source, target = sys.stdin.fileno(), sys.stdout.fileno()
        if not (os.isatty(source) and os.isatty(target)) or os.tcgetpgrp(source) != os.getpgrp():
            return None
        if select.select([source], [], [], 0)[0]:
            return None
        modes = termios.tcgetattr(source)
        try:
            tty.setcbreak(source, termios.TCSANOW)
            os.write(target, _QUESTION)
            return judge(_read_answer(source, REMOTE_LIMIT if os.environ.get("SSH_CONNECTION") else LIMIT))
        finally:
            termios.tcsetattr(source, termios.TCSANOW, modes)
    except (OSError, ValueError, AttributeError, termios.error):
        return None


def judge(answer: bytes) -> str | None:
    """Return `light` or `dark` for the answer to OSC 11; None if it is none."""
    match = _COLOUR.search(answer)
    if match is None:
        return None
    parts = [int(part, 16) / (16 ** len(part) - 1) for part in match.groups()]
    brightness = sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))
    return "light" if brightness > 0.5 else "dark"


def _read_answer(source: int, limit: float) -> bytes:
    """Read until the terminal has answered both questions, or the limit is over."""
    answer, deadline = b"", time.monotonic() + limit
    while not _END.search(answer):
        if not select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        data = os.read(source, 1024)
        if not data:
            break
        answer += data
    return answer
