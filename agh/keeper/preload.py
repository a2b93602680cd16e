"""Modules that are otherwise imported when they are first needed, loaded while a keeper starts.

A keeper may outlive the files that it was started from: an upgrade replaces them, and a module that is
imported after that may be missing, or may not fit those in memory. So every module of agh that a keeper can
need is loaded before it reports that it is ready, and modules of Python that only failures need soon after.
Only hashlib stays out: it takes 3.5 MB, and an upgrade of agh does not touch it.
"""

from __future__ import annotations

import agh.core.settings.mcp
import agh.core.settings.toml_text  # noqa: F401


def preload_for_failures() -> None:
    """Import what only an error message or a traceback needs; a keeper does it when it has time."""
    import difflib  # noqa: F401
    import traceback  # noqa: F401
