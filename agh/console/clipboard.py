"""The user's clipboard: by a program of the desktop, or by the terminal (OSC 52).

On this machine a program is used, because it says whether it has worked. Over ssh the terminal is, because
the clipboard is on the user's machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from base64 import b64encode

from agh.errors import ClipboardMissing

LIMIT = 10.0  # seconds for a program
# A program, its arguments, and the variable that says whether its desktop is there.
_PROGRAMS = (
    (("pbcopy",), None),
    (("wl-copy",), "WAYLAND_DISPLAY"),
    (("xclip", "-selection", "clipboard"), "DISPLAY"),
    (("xsel", "--clipboard", "--input"), "DISPLAY"),
)


def copy(text: str) -> str:
    """Put text on the clipboard, and return how. Raise ClipboardMissing if there is no way."""
    is_remote = bool(os.environ.get("SSH_CONNECTION"))
    for command, variable in () if is_remote else _PROGRAMS:
        if variable is None or os.environ.get(variable):
            path = shutil.which(command[0])
            if path and _run([path, *command[1:]], text):
                return command[0]
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            stream.write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")
            stream.flush()
            return "the terminal (OSC 52)"
    raise ClipboardMissing()


def _run(command: list[str], text: str) -> bool:
    """Give the text to a program; tell whether it took it. Some stay to serve it, so they get no stream."""
    nowhere = subprocess.DEVNULL
    try:
        subprocess.run(
            command, input=text.encode(), stdout=nowhere, stderr=nowhere, timeout=LIMIT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
