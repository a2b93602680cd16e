"""Replacing a file whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agh.home import replace_file, replace_private_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_asked_for_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = os.umask(0o077)
    try:
        replace_file(str(path), b"one", mode=0o644)
    finally:
        os.umask(before)
    assert (path.read_bytes(), mode(path)) == (b"one", 0o644)
    path.chmod(0o640)
    inode = path.stat().st_ino
    replace_file(str(path), b"two")
    assert (path.read_bytes(), mode(path)) == (b"two", 0o640)
    assert path.stat().st_ino != inode, "replaced, not written over"
    assert sorted(os.listdir(tmp_path)) == ["file", "user"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, link = tmp_path / "dotfiles" / "config", tmp_path / "config"
    real.write_text("old")
    link.symlink_to(real)
    replace_file(str(link), b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_private_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_text("precious")
    victim.chmod(0o644)
    path.symlink_to(victim)
    replace_private_file(str(path), b"new", sync=False)
    assert not path.is_symlink()
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)
    assert victim.read_text() == "precious"


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(str(path), b"new")
    assert path.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["file", "user"]
