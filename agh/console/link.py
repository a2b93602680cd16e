"""Opening a link in the user's browser, if there is one to open it in."""

from __future__ import annotations

import os
import sys


def open_link(url: str) -> bool:
    """Open a web page in a browser; return False if none can be opened from here."""
    has_screen = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    )
    if not has_screen or not url.startswith(("https://", "http://")):
        return False
    import webbrowser

    return webbrowser.open(url)
