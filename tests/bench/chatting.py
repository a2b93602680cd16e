"""How soon one can type in the chat: from the start of `agh attach` to its input line."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.live import session
from tests.bench.measure import AGH, Figure, Taken, against_bare, cpu_of_children

CTRL_D = b"\x04"
STATUS = re.compile("(joining|idle) ·".encode())  # the line below the input


def first_prompt(place: Path, quick: bool) -> Iterator[Figure]:
    with session(place) as name:
        value, note = against_bare(1 if quick else 15, lambda: _attach(name))
    yield Figure("agh attach to its first prompt", value, "x", 20, note=note)


def _attach(name: str) -> Taken:
    """Attach, and leave when the input line is there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color"}
    before, start = cpu_of_children(), time.perf_counter()
    with subprocess.Popen(
        [AGH, "attach", name], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        screen = b""
        while not STATUS.search(screen):
            screen += os.read(ours, 65536)
        wall = time.perf_counter() - start
        os.write(ours, CTRL_D)
        try:
            while os.read(ours, 65536):
                pass
        except OSError:  # EIO: the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return Taken(wall, cpu_of_children() - before)
