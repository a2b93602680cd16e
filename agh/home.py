"""Where agh stores its files, and how: AGH_HOME, session ids and their paths, private modes, replacing.

Promises: a session id is matched against one pattern before any path is built from it, so no id can point
outside the home; directories are 0700 and files 0600 whatever the umask; a home that another user owns or
can write to is refused. A file that is replaced is replaced whole: a reader sees the old text or the new one,
never a mixture. A disk that lies about fsync can still lose the change.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from agh.errors import HomeUnknown, HomeUnsafe, SessionNotFound

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from typing import Final

_ID_PREFIX, _ID_LENGTHS = "sess-", range(8, 27)  # of the digits behind it
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TIME_DIGITS, _RANDOM_DIGITS = 9, 7
MAX_PATH, MAX_LINKS = 4096, 40  # the kernel's limits
_NO_LINK = (errno.EINVAL, errno.ENOENT, errno.ENOTDIR)


def home_path() -> str:
    """Return the absolute path of the home, which need not exist."""
    path = os.environ.get("AGH_HOME")
    if not path:
        user = os.path.expanduser("~")
        if not os.path.isabs(user):
            raise HomeUnknown()
        path = os.path.join(user, ".agh")
    return os.path.abspath(path)


def checked_home() -> str | None:
    """Return the home's path, or None if it does not exist. Raise HomeUnsafe if it is not private."""
    path = home_path()
    elsewhere = "export AGH_HOME=/another/directory"
    try:
        info = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeUnsafe(path, f"agh cannot check it ({error.strerror})", hint=elsewhere) from None
    if not stat.S_ISDIR(info.st_mode):
        raise HomeUnsafe(path, "it is not a directory", hint=elsewhere)
    if info.st_uid != os.geteuid():
        raise HomeUnsafe(path, f"it belongs to user {info.st_uid}", hint=elsewhere)
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HomeUnsafe(path, "others may write to it")
    return path


def ensure_home() -> str:
    """Return the home's path, creating a private directory if there is none."""
    path = checked_home()
    if path is None:
        path = home_path()
        make_private_dir(path)
        checked_home()
    return path


def make_private_dir(path: str) -> None:
    """Create `path` and any missing parents, all 0700. One that exists is left as it is."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_private_dir(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, 0o700)


def cache_path() -> str:
    """Return the directory for data derived from this home. It can be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # XDG's rule, on every platform
        from platformdirs import user_cache_dir

        base = user_cache_dir()
    if not os.path.isabs(base):
        raise HomeUnknown()
    return os.path.join(base, "agh", home_path().lstrip(os.sep))


def open_private(path: str, flags: int) -> int:
    """Open one of our files, creating it 0600 if it is missing. Never follow a link out of the home."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if os.path.islink(path):
            raise HomeUnsafe(path, "it is a symbolic link", hint=f"rm {path}") from error
        raise


def free_bytes(directory: str | os.PathLike[str]) -> int:
    """Return how many bytes this user can still write there; none if no file can be created."""
    disk = os.statvfs(directory)
    return 0 if disk.f_files and not disk.f_favail else disk.f_bavail * disk.f_frsize


def check_descriptors(count: int = 8) -> None:
    """Raise the OSError that says so if no more than a few files can be opened."""
    descriptors: list[int] = []
    try:
        for _ in range(count):
            descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for fd in descriptors:
            os.close(fd)


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


def sync_directory(directory: str | os.PathLike[str]) -> None:
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


class Session:
    """A session: its id, and the directory that has its files. As a path it is the directory."""

    __slots__ = ("directory", "id")

    def __init__(self, id: str, directory: str) -> None:
        self.id: Final = id
        self.directory: Final = directory

    @classmethod
    def at(cls, directory: str | os.PathLike[str]) -> Session:
        """Return the session in a directory, which has the session's id for a name."""
        path = os.fspath(directory)
        return cls(path[path.rfind("/") + 1 :], path)

    def __fspath__(self) -> str:
        return self.directory

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and (self.id, self.directory) == (other.id, other.directory)

    def __hash__(self) -> int:
        return hash(self.directory)

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {self.directory!r})"


def agent_files(folder: str) -> list[str]:
    """List the files that define agents, in the home or in a workspace's `.agh`."""
    try:
        names = sorted(os.listdir(os.path.join(folder, "agents")))
    except OSError:
        return []
    return [os.path.join(folder, "agents", name) for name in names if name.endswith(".toml")]


def sessions_path() -> str:
    """Return the directory that holds one directory per session. It need not exist."""
    return os.path.join(checked_home() or home_path(), "sessions")


def session_of(session_id: str) -> Session:
    """Return the session that has an id; it need not exist. Raise SessionNotFound if it is not an id."""
    if not is_session_id(session_id):
        raise SessionNotFound(repr(session_id))
    return Session(session_id, os.path.join(sessions_path(), session_id))


def is_session_id(text: str) -> bool:
    """Tell whether a text has the form of a session's id. Without `re`, which takes 4 ms to import."""
    digits = text.removeprefix(_ID_PREFIX)
    return len(digits) in _ID_LENGTHS and len(digits) < len(text) and not digits.strip(_DIGITS)


def new_session_id() -> str:
    """Return a new id that sorts by creation time: milliseconds in base 36, then random digits."""
    return session_id_of(time.time_ns() // 1_000_000, os.urandom(_RANDOM_DIGITS))


def session_id_of(milliseconds: int, noise: bytes) -> str:
    """Return the id of a session created at this time. `noise` tells apart sessions of the same time."""
    number, digits = milliseconds, ""
    for _ in range(_TIME_DIGITS):
        number, last = divmod(number, 36)
        digits = _DIGITS[last] + digits
    return f"{_ID_PREFIX}{digits}{base36(noise[:_RANDOM_DIGITS])}"


def base36(noise: bytes) -> str:
    """Return a digit or a lower-case letter for each byte."""
    return "".join(_DIGITS[byte % 36] for byte in noise)


def real_path(path: str) -> str | None:
    """Return an absolute path with its links resolved, or None if that is impossible.

    Unlike os.path.realpath it never raises, and it gives up where the kernel would. Parts of the path that
    do not exist are left as they are.
    """
    if not path.startswith("/") or "\0" in path or len(path) > MAX_PATH:
        return None
    real, links = "", 0
    names = path.split("/")[::-1]
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = real[: max(0, real.rfind("/"))]
            continue
        candidate = f"{real}/{name}"
        try:
            target = os.readlink(candidate)
        except OSError as error:
            if error.errno not in _NO_LINK:
                return None
            real = candidate
            continue
        except ValueError:  # a name that the file system's encoding cannot express
            return None
        links += 1
        if links > MAX_LINKS:
            return None
        real = "" if target.startswith("/") else real
        names += target.split("/")[::-1]
    return real or "/"
