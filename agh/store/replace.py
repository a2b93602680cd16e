"""Replacing a file whole: temporary file, fsync, rename, fsync of the directory. A reader sees the old
text or the new one. A link stays a link: what it points to is replaced, with its mode."""

from __future__ import annotations

import os
import stat

from agh.store.meta import sync_directory


def replace_file(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """`mode` is for a file that is not there yet; its directory must be."""
    path = os.path.realpath(path)
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, f".{os.path.basename(path)}.{os.getpid()}")
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        pass
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_directory(directory)
