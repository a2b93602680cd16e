"""The token: one line in `$AGH_HOME/serve.token`, mode 0600, created on first use.

Refuses a file that others can read, that belongs to another user, or that is not a regular file.
"""

from __future__ import annotations

import os
import secrets
import stat

from agh.home import ensure_home
from agh_serve.errors import TokenUnsafe

FILE = "serve.token"
MIN_LENGTH = 16


def token_path() -> str:
    return os.path.join(ensure_home(), FILE)


def ensure_token() -> str:
    """Return the token, creating its file if there is none."""
    path = token_path()
    try:
        return _read_token(path)
    except FileNotFoundError:
        pass
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        os.link(temporary, path)
    except FileExistsError:
        pass  # another server was quicker: use its token
    finally:
        os.unlink(temporary)
    return _read_token(path)


def _read_token(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise TokenUnsafe(path, "it is not a regular file")
        if status.st_uid != os.geteuid():
            raise TokenUnsafe(path, f"it belongs to user {status.st_uid}")
        if status.st_mode & 0o077:
            raise TokenUnsafe(path, "others may read it", hint=f"chmod 600 {path}")
        text = file.read(4096).decode(errors="replace").strip()
    if len(text) < MIN_LENGTH or not text.isascii() or not text.isprintable() or " " in text:
        raise TokenUnsafe(path, f"it must contain one word of at least {MIN_LENGTH} characters")
    return text
