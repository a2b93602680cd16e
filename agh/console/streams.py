"""The standard streams, whatever the program was started with. Imported before click is."""

from __future__ import annotations

import os
import sys


def ensure_standard_streams() -> None:
    """A closed 0, 1 or 2 would be given to the next file that is opened; fill it with /dev/null."""
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
