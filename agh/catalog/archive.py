"""Unpacking an archive that came from the network.

Promises: nothing is written outside the directory, whatever the archive says: a member with an absolute
path, with `..`, or with a link that leads out makes the whole archive refused before anything is unpacked.
Devices, sizes beyond the bounds and formats that are not known are refused too.
"""

from __future__ import annotations

import os
import posixpath
import stat
import tarfile
import zipfile
import zlib

from agh.catalog.entries import is_inside
from agh.errors import ArchiveRefused

MOST_MEMBERS, MOST_BYTES = 200_000, 4 << 30
TAR_ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
INSTALLER_ENDINGS = (".dmg", ".pkg", ".deb", ".rpm", ".msi", ".appimage", ".7z", ".rar")
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
)


def unpack(path: str, url: str, command: str, directory: str) -> None:
    """Unpack the file that came from `url` into the directory; `command` is the program in it."""
    name = url.partition("?")[0].lower()
    if name.endswith(INSTALLER_ENDINGS):
        raise ArchiveRefused(url, "agh unpacks zip and tar archives only")
    try:
        if name.endswith(".zip"):
            _unpack_zip(path, url, directory)
        elif name.endswith(TAR_ENDINGS):
            _unpack_tar(path, url, directory)
        else:  # the program itself
            os.makedirs(os.path.dirname(os.path.join(directory, command)), mode=0o700, exist_ok=True)
            os.rename(path, os.path.join(directory, command))
    except _UNREADABLE as error:
        raise ArchiveRefused(url, str(error) or type(error).__name__) from None
    program = os.path.join(directory, command)
    if not os.path.isfile(program) or not _is_below(program, directory):
        raise ArchiveRefused(url, f"it does not contain {command}")
    os.chmod(program, 0o700)


def _unpack_tar(path: str, url: str, directory: str) -> None:
    with tarfile.open(path) as archive:
        members, size = [], 0
        for member in archive:
            members.append(member)
            size += member.size
            _check_bounds(url, len(members), size)
            _check_name(url, member.name)
            if member.issym() or member.islnk():
                # A symbolic link starts from its own directory, a hard link from the archive's top.
                start = posixpath.dirname(member.name) if member.issym() else ""
                _check_name(url, posixpath.normpath(posixpath.join(start, member.linkname)))
                if not hasattr(tarfile, "data_filter"):  # links to links need a look at the disk
                    problem = "it has links, which this version of Python cannot unpack safely"
                    raise ArchiveRefused(url, problem, hint="run agh with Python 3.11.4 or later")
            elif not (member.isfile() or member.isdir()):
                raise ArchiveRefused(url, f"{member.name} is neither a file nor a directory")
        if hasattr(tarfile, "data_filter"):  # looks where each link really leads
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(directory, members)


def _unpack_zip(path: str, url: str, directory: str) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_bounds(url, len(members), sum(member.file_size for member in members))
        for member in members:
            _check_name(url, member.filename)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise ArchiveRefused(url, f"{member.filename} is a link")
        for member in members:
            target = archive.extract(member, directory)
            if not member.is_dir():
                os.chmod(target, 0o700 if (member.external_attr >> 16) & 0o111 else 0o600)


def _check_bounds(url: str, members: int, size: int) -> None:
    if members > MOST_MEMBERS or size > MOST_BYTES:
        raise ArchiveRefused(url, f"it has more than {MOST_MEMBERS} files or {MOST_BYTES >> 30} GB")


def _check_name(url: str, name: str) -> None:
    if name not in (".", "./") and not is_inside(name.removeprefix("./")):
        raise ArchiveRefused(url, f"{name!r} points outside the archive")


def _is_below(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep)
