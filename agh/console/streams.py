"""Usable standard streams, however the program was started. Must be imported before click."""

from __future__ import annotations

import os
import sys


def ensure_standard_streams() -> None:
    """Open a closed 0, 1 or 2 as /dev/null, so that the next file to be opened does not take its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="replace")
