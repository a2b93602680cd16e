"""Replacing a whole file: write a temporary file, fsync it, rename it, fsync the directory.

Promises: a reader sees either the old text or the new one, never a mixture. A disk that lies about fsync
can still lose the change.
"""

from __future__ import annotations

import os
import stat

from agh.errors import FileTaken


def replace_file(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file that the user may have linked or made readable: keep the link and the mode.

    `mode` applies if the file does not exist yet. Its directory must exist.
    """
    path = os.path.realpath(path)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        pass
    _replace(path, data, mode, sync=True)


def replace_private_file(path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace a file of our own: it is always 0600, and a link at `path` is replaced, not followed.

    Without `sync` a power cut may bring back the old text.
    """
    _replace(path, data, None, sync)


def sync_directory(directory: str) -> None:
    """Flush a directory to disk, so that the renames in it survive a power cut."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create_private_file(path: str) -> None:
    """Create an empty file, 0600. Raise FileExistsError if there is something at `path`."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


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


def sync_file(path: str) -> None:
    """Flush a file to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _replace(path: str, data: bytes, mode: int | None, sync: bool) -> None:
    """Replace what is at `path`. Not every file system can change a mode: None leaves it as created."""
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(fd, mode)
            if sync:
                os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if sync:
        sync_directory(directory)
