"""Opening the very file that was decided about: a resolved path, walked without following any link.

A path is resolved and judged first, and opened later; meanwhile an agent may swap a directory for a link. So
the walk refuses links: in one call of openat2 where the kernel has it, else name by name, each from the
descriptor of its directory. What is opened lies where it was judged, or nothing is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from agh.home import MAX_PATH

_OPENAT2 = 437  # on every architecture
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_SWAPPED = (errno.ELOOP, errno.EXDEV, errno.ENOTDIR)

_libc: Any = None  # False where there is no openat2


def open_file(path: str, flags: int) -> int:
    """Open a regular file at a resolved path, with its missing directories if it may be created."""
    parent = open_directory(os.path.dirname(path), create=bool(flags & os.O_CREAT))
    try:
        # Anything but a regular file could block (a FIFO) or be a device.
        fd = os.open(
            os.path.basename(path),
            flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o666,
            dir_fd=parent,
        )
    except OSError as error:
        raise _explained(error) from None
    finally:
        os.close(parent)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("it is not a regular file")
    return fd


def open_directory(path: str, *, create: bool = False) -> int:
    """Open a directory at a resolved path, to work from its descriptor; create it if requested."""
    names = [name for name in path.split("/") if name]
    if not path.startswith("/") or ".." in names or len(path) > MAX_PATH:
        raise ValueError(f"{path!r} is not a resolved path")
    try:
        if (fd := _open_at_once("/".join(names) or ".")) is not None:
            return fd
        return _walk(names, create=False)
    except FileNotFoundError:
        if not create:
            raise
        return _walk(names, create=True)
    except OSError as error:
        raise _explained(error) from None


def _open_at_once(path: str) -> int | None:
    """Open a directory below / with openat2, or return None where there is none."""
    global _libc
    if _libc is None:
        _libc = _load_libc()
    if not _libc:
        return None
    import ctypes

    how = (ctypes.c_uint64 * 3)(_DIRECTORY, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    root = os.open("/", _DIRECTORY)
    try:
        while True:
            fd = _libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
            if fd >= 0:
                return int(fd)
            number = ctypes.get_errno()
            if number in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a sandbox that does not know it
                _libc = False
                return None
            if number not in (errno.EINTR, errno.EAGAIN):
                raise OSError(number, os.strerror(number))
    finally:
        os.close(root)


def _load_libc() -> Any:
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        return libc if hasattr(libc, "syscall") and os.uname().sysname == "Linux" else False
    except (ImportError, OSError):
        return False


def _walk(names: list[str], *, create: bool) -> int:
    """Open a directory below / name by name, creating what is missing if requested."""
    fd = os.open("/", _DIRECTORY)
    for name in names:
        try:
            try:
                below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            except FileNotFoundError:
                if not create:
                    raise
                try:
                    os.mkdir(name, 0o777, dir_fd=fd)
                except FileExistsError:
                    pass
                below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _explained(error: OSError) -> OSError:
    """Say what happened when a name on the way is not what it was."""
    if error.errno in _SWAPPED:
        return OSError(error.errno, "a part of its path is a link or no directory")
    return error
