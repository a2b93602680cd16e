"""The user's file with variables for agents, `[env] file`: keys that cron and timers do not have.

Promises: a file that others may read or write is refused, with the command that makes it private. A variable
that is set already stays as it is. No error quotes a value.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from agh.errors import ConfigInvalid, EnvFileUnsafe

LARGEST = 1 << 20
OTHER_FILE = "use a file of your own: agh config set env.file PATH"
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""")


def add_variables(path: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the variables of the file that it does not have; no path adds nothing."""
    return {**read(path), **environ} if path else dict(environ)


def read(path: str) -> dict[str, str]:
    """Return the variables in the file. Raise EnvFileUnsafe or ConfigInvalid if it cannot be used."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            _check(path, os.fstat(fd))
            text = file.read(LARGEST + 1)
    except OSError as error:
        hint = f"install -m 600 /dev/null {path}" if isinstance(error, FileNotFoundError) else f"ls -l {path}"
        raise ConfigInvalid(
            path, f"cannot read the file set in env.file: {error.strerror}", hint=hint
        ) from None
    if len(text) > LARGEST:
        raise ConfigInvalid(path, f"it has more than {LARGEST} bytes", hint="keep only NAME=VALUE lines")
    return _parse(path, text)


def _check(path: str, info: os.stat_result) -> None:
    """Refuse what is no regular file of the user's, or is open to others."""
    if not stat.S_ISREG(info.st_mode):
        raise ConfigInvalid(path, "it is not a regular file", hint=OTHER_FILE)
    if info.st_uid not in (os.geteuid(), 0):
        raise EnvFileUnsafe(path, "it belongs to another user", hint=OTHER_FILE)
    if info.st_mode & 0o077:
        raise EnvFileUnsafe(path, f"its mode is {stat.S_IMODE(info.st_mode):o}")


def _parse(path: str, text: bytes) -> dict[str, str]:
    variables = {}
    for number, line in enumerate(text.decode(errors="surrogateescape").split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\0" in line:
            raise ConfigInvalid(path, f"line {number} is not NAME=VALUE")
        variables[match[1]] = _value(path, number, match[2])
    return variables


def _value(path: str, number: int, text: str) -> str:
    """Return a value without its quotes; as in a shell, a word in front of # is a comment's end."""
    if not text.startswith(("'", '"')):
        return re.split(r"\s+#", text, maxsplit=1)[0]
    match = _QUOTED.fullmatch(text)
    if match is None:
        raise ConfigInvalid(path, f"line {number} has an unclosed quote")
    return match[2] if match[1] is None else re.sub(r"\\(.)", r"\1", match[1])
