"""A text that is kept up to date on the terminal until Ctrl-C; the screen is then as it was before."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

PAUSE = 1.0  # seconds
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def keep_showing(draw: Callable[[], str]) -> None:
    """Show what `draw` returns, again whenever that or the size of the terminal changes."""
    before = None
    sys.stdout.write(ENTER)
    try:
        while True:
            size = os.get_terminal_size(sys.stdout.fileno())
            frame = draw(), size
            if frame != before:
                lines = frame[0].splitlines()[: (size.lines or 24) - 1]
                sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines) + "\x1b[J")
                sys.stdout.flush()
                before = frame
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
