"""Replacing a whole file: write a temporary file, fsync it, rename it, fsync the directory.

Promises: a reader sees either the old text or the new one, never a mixture. A disk that lies about fsync
can still lose the change.
"""

from __future__ import annotations

import os
import stat


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
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path
        raise
    if sync:
        sync_directory(directory)
