"""Small and read-only disks under test: mounts that only root can make, gone at the end of the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.wait import wait_until


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[Path]:
    """A disk of so many bytes."""
    path.mkdir(mode=0o700)
    _mount("-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(path))
    try:
        yield path
    finally:
        _unmount(path)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A directory that nobody can write to, root neither."""
    wait_until(lambda: _mount_read_only(path), what="nobody opens a file to write between the two mounts")
    try:
        yield
    finally:
        _unmount(path)


def fill(disk: Path, leave: int = 0) -> Path:
    """Write a file that leaves so many bytes free, and return it."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free - leave))
    return ballast


def _mount_read_only(path: Path) -> bool:
    """Mount a directory over itself; return False, with nothing mounted, if a file in it is being written."""
    _mount("--bind", str(path), str(path))
    if _try_mount("-o", "remount,ro,bind", str(path)):
        return True
    _unmount(path)
    return False


def _mount(*args: str) -> None:
    assert _try_mount(*args), args


def _try_mount(*args: str) -> bool:
    """Mount, and return False if the directory is in use; skip the test if we may not mount at all."""
    result = subprocess.run(["mount", *args], capture_output=True, text=True)
    if result.returncode and "busy" not in result.stderr:
        pytest.skip(f"only root can mount: {result.stderr.strip()}")
    return result.returncode == 0


def _unmount(path: Path) -> None:
    """Lazily: a process that a failed test left behind must not keep the mount."""
    subprocess.run(["umount", "--lazy", str(path)], check=True)
