"""Writing a new file for the user: it is private, and gets its name only when it is complete."""

from __future__ import annotations

import os

from agh.errors import FileTaken


def create_private_file(path: str) -> None:
    """Create an empty file, 0600. Raise FileExistsError if there is something at `path`."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def sync_file(path: str) -> None:
    """Flush a file to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def give_name(fresh: str, path: str) -> None:
    """Give a finished file its name. Raise FileTaken if someone else has taken the name meanwhile."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise FileTaken(path) from None
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileTaken(path) from None
        os.rename(fresh, path)
