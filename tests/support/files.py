"""What is on disk, to be compared with what is there later."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def tree(top: Path) -> dict[str, tuple[object, ...]]:
    """Return everything about a directory and all below it that reading must not change, by name."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted([top, *top.rglob("*")]):
        stat = path.lstat()
        body = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        entries[str(path.relative_to(top))] = (stat.st_mode, stat.st_ino, stat.st_mtime_ns, body)
    return entries


def modes(top: Path) -> dict[Path, int]:
    """Return the mode of a directory and of all below it, without what vanishes meanwhile."""
    entries = {}
    for path in [top, *top.rglob("*")]:
        with suppress(FileNotFoundError):
            entries[path] = path.lstat().st_mode
    return entries
