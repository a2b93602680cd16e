"""Standard input as a prompt, or as the material beside one.

Promises to read no more than the largest prompt has, and to give up a pipe that nobody asked for if it stays
open and silent. Never takes anything but a pipe for material unless asked: a loop reads its list from a file,
and the socket of a server belongs to the server.
"""

from __future__ import annotations

import os
import select
import stat
import time

from agh import config
from agh.console.output import remark
from agh.errors import InputStillOpen, InputTooLarge, Usage

PATIENCE = 0.5  # seconds of silence until we say that we wait
SILENCE = 600.0  # seconds of silence until a pipe that nobody asked for is given up
STDIN, BLOCK = 0, 1 << 16


def is_pipe() -> bool:
    """Tell whether standard input is a pipe."""
    return stat.S_ISFIFO(os.fstat(STDIN).st_mode)


def read(limit: float | None = None, *, unasked: bool = False) -> str:
    """Return all of standard input. Raise InputStillOpen if that takes longer than `limit` seconds.

    If it is read `unasked`, say so when nothing comes, and give up after ten minutes of silence.
    """
    most = int(config.load()["session.input_bytes"])
    received = bytearray()
    deadline = None if limit is None else time.monotonic() + limit
    while data := _read_block(deadline, limit or 0.0, unasked=unasked):
        received += data
        if len(received) > most:
            raise InputTooLarge(f"more than {most}", most)
    return received.decode(errors="replace").replace("\r\n", "\n")


def fenced(text: str, material: str) -> str:
    """Return the text, then the material between two fences that do not occur in it."""
    fence = "```"
    while fence in material:
        fence += "`"
    end = "" if material.endswith("\n") else "\n"
    return f"{text.rstrip()}\n\n{fence}\n{material}{end}{fence}"


def _read_block(deadline: float | None, limit: float, *, unasked: bool) -> bytes:
    """Return what comes next on standard input; nothing at its end."""
    silent_since, mentioned = time.monotonic(), not unasked
    while True:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise InputStillOpen(limit)
        if unasked and now - silent_since >= SILENCE:
            raise InputStillOpen(SILENCE)
        if not mentioned and now - silent_since >= PATIENCE:
            remark("reading standard input, which is a pipe; --no-stdin ignores it")
            mentioned = True
        wait = min(1.0 if mentioned else PATIENCE, 1.0 if deadline is None else deadline - now)
        if not select.select([STDIN], [], [], wait)[0]:
            continue
        try:
            return os.read(STDIN, BLOCK)
        except BlockingIOError:
            time.sleep(0.01)  # another reader was faster
        except OSError as error:
            why = f"standard input cannot be read: {error.strerror}"
            raise Usage(why, hint="redirect it from a file: < FILE") from None
