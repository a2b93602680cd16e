"""The token: one line in `$AGH_HOME/serve.token`, 0600, made on first use and kept.

A file that others can read, or that is not an ordinary file of ours, is refused.
"""

from __future__ import annotations

import os
import secrets
import stat

from agh.home import ensure_home
from agh_serve.errors import TokenUnsafe

FILE, SHORTEST = "serve.token", 16


def token_path() -> str:
    return os.path.join(ensure_home(), FILE)


def ensure_token() -> str:
    path = token_path()
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        os.link(temporary, path)
    except FileExistsError:
        pass  # another server was quicker: its token holds
    finally:
        os.unlink(temporary)
    return _read(path)


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise TokenUnsafe(path, "it is not a regular file")
        if found.st_uid != os.geteuid():
            raise TokenUnsafe(path, f"it belongs to user {found.st_uid}")
        if found.st_mode & 0o077:
            raise TokenUnsafe(path, "others may read it", hint=f"chmod 600 {path}")
        text = file.read(4096).decode(errors="replace").strip()
    if len(text) < SHORTEST or not text.isascii() or not text.isprintable() or " " in text:
        raise TokenUnsafe(path, f"it does not hold one word of {SHORTEST} characters or more")
    return text
