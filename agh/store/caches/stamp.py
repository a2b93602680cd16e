"""Stamps of files: what a cache compares to tell whether a file has changed since it was read."""

from __future__ import annotations

import os

Stamp = tuple[int, int, int]  # inode, size, time of change in ns

SETTLED_NS = 2_000_000_000  # a file changed again so soon might have the same stamp: no clock is that coarse


def stamp_of(path: str) -> Stamp | None:
    """Return the stamp of a file; None if there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns
