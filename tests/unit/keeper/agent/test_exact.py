"""Opening exactly what was decided about, while somebody swaps the directories for links."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agh.home import real_path
from agh.keeper.agent import exact, files
from agh.keeper.agent.boundary import is_inside

SWAPS = 100_000
# Swaps a directory and a link to the outside, and a file and such a link, so many times.
SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
work, count = sys.argv[1], int(sys.argv[2])
pairs = [[os.fsencode(work + name) for name in (name, name + "-link")] for name in ("/dir", "/file")]
print("ready", flush=True)
for number in range(count):
    a, b = pairs[number % 2]
    assert libc.renameat2(-100, a, -100, b, 2) == 0
"""


@pytest.fixture(params=["openat2", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "walk":
        monkeypatch.setattr(exact, "_libc", False)
    else:
        monkeypatch.setattr(exact, "_libc", None)
        assert exact._open_at_once("tmp") is not None, "this kernel has openat2"
    return str(request.param)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work / "dir", outside):
        folder.mkdir(parents=True)
    (work / "dir" / "file").write_text("inside")
    (work / "file").write_text("inside")
    (outside / "file").write_text("secret")
    (work / "dir-link").symlink_to(outside)
    (work / "file-link").symlink_to(outside / "file")
    return work


@contextmanager
def swapping(work: Path, count: int) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", SWAPPER, str(work), str(count)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as swapper:
        assert swapper.stdout
        assert swapper.stdout.readline() == "ready\n"
        yield swapper
        assert swapper.wait(60) == 0


def test_nothing_outside_is_read_or_written_in_100_000_swaps(work: Path, way: str) -> None:
    counts = {"read": 0, "written": 0, "refused": 0, "outside": 0}
    with swapping(work, SWAPS) as swapper:
        while swapper.poll() is None:
            for path in (work / "dir" / "file", work / "file"):
                real = real_path(str(path))
                if real is None or not is_inside([str(work)], real):
                    counts["outside"] += 1
                    continue
                try:
                    assert files._read(real, 0, None) in ("inside", "agent", "")
                    counts["read"] += 1
                    files._write(real, "agent")
                    counts["written"] += 1
                except OSError:
                    counts["refused"] += 1
    assert (work.parent / "outside" / "file").read_text() == "secret"
    assert os.listdir(work.parent / "outside") == ["file"]
    assert all(counts.values()), counts


def test_new_files_in_swapped_directories(work: Path, way: str) -> None:
    created = 0
    with swapping(work, SWAPS // 5) as swapper:
        while swapper.poll() is None:
            try:
                files._write(str(work / "dir" / "deep" / f"new{created}"), "agent")
                created += 1
            except OSError:
                pass
    assert created
    assert os.listdir(work.parent / "outside") == ["file"]


@pytest.mark.usefixtures("way")
def test_a_plain_file(work: Path) -> None:
    assert files._read(str(work / "file"), 0, None) == "inside"
    assert files._read("/proc/self/../self/status".replace("self/../self", str(os.getpid())), 0, 1)


@pytest.mark.parametrize("path", ["dir-link/file", "file-link", "dir-link/new", "dir/file/below"])
@pytest.mark.usefixtures("way")
def test_a_link_or_a_file_on_the_way(work: Path, path: str) -> None:
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
        with pytest.raises(OSError):
            exact.open_file(str(work / path), flags)
    assert os.listdir(work.parent / "outside") == ["file"]


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/" + "x" * 5000])
@pytest.mark.usefixtures("way")
def test_only_resolved_paths(path: str) -> None:
    with pytest.raises((ValueError, OSError)):
        exact.open_file(path + "/file", os.O_RDONLY)


@pytest.mark.usefixtures("way")
def test_missing_directories_are_created_for_a_new_file_only(work: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exact.open_file(str(work / "a/b/c"), os.O_RDONLY)
    assert not (work / "a").exists()
    os.close(exact.open_file(str(work / "a/b/c"), os.O_WRONLY | os.O_CREAT))
    assert (work / "a/b/c").is_file()


@pytest.mark.usefixtures("way")
def test_no_descriptor_is_leaked(work: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in ("dir-link/file", "file-link", "dir/file", "missing/file"):
        try:
            os.close(exact.open_file(str(work / path), os.O_RDONLY))
        except OSError:
            pass
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.usefixtures("way")
def test_a_kernel_without_openat2(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_OPENAT2", 100_000)
    monkeypatch.setattr(exact, "_libc", None)
    assert files._read(str(work / "file"), 0, None) == "inside"
    assert exact._libc is False
