"""Archives from the network stay in their directory."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from agh.catalog import archive
from agh.errors import ArchiveRefused
from tests.support.files import tree
from tests.unit.catalog.loopback import SCRIPT, link, tar, zipped

GOOD = ("pkg/agent", SCRIPT)


def unpack(
    root: Path, data: bytes, url: str = "https://x.example/a.tar.gz", command: str = "pkg/agent"
) -> Path:
    (root / "content").mkdir()
    (root / "archive").write_bytes(data)
    archive.unpack(str(root / "archive"), url, command, str(root / "content"))
    return root / "content" / command


@pytest.mark.parametrize(
    ("data", "url", "command"),
    [
        (
            tar(GOOD, link("pkg/same", "agent"), link("pkg/hard", "pkg/agent", tarfile.LNKTYPE)),
            "a.tar.gz",
            "pkg/agent",
        ),
        (tar(("./agent", SCRIPT)), "a.tgz?token=1", "agent"),
        (zipped(GOOD), "a.zip", "pkg/agent"),
        (SCRIPT, "agent-linux", "agent-linux"),
        (SCRIPT, "agent-linux", "bin/agent"),
    ],
)
def test_what_is_unpacked_can_be_run(tmp_path: Path, data: bytes, url: str, command: str) -> None:
    program = unpack(tmp_path, data, f"https://x.example/{url}", command)
    assert program.read_bytes() == SCRIPT
    assert os.access(program, os.X_OK)


@pytest.mark.parametrize(
    "data",
    [
        tar(GOOD, ("../out", b"x")),
        tar(GOOD, ("/tmp/agh-out", b"x")),
        tar(GOOD, ("pkg/../../out", b"x")),
        tar(GOOD, link("pkg/up", "../../out"), ("pkg/up/file", b"x")),
        tar(GOOD, link("pkg/root", "/etc")),
        tar(GOOD, link("hard", "../out", tarfile.LNKTYPE)),
        tar(GOOD, link("a", "pkg/.."), link("b", "a/../..")),
        tar(GOOD, link("a", "pkg/.."), link("b", "a/.."), ("b/out", b"x")),
        tar(GOOD, link("fifo", "", tarfile.FIFOTYPE)),
        tar(GOOD, link("device", "", tarfile.CHRTYPE)),
        tar(("other", b"x")),
        tar(link("pkg/agent", "/bin/sh")),
        b"not an archive",
        tar(GOOD)[:-40],
        b"",
    ],
    ids=range(15),
)
def test_an_archive_that_leads_out_is_refused(tmp_path: Path, data: bytes) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ArchiveRefused):
        unpack(root, data)
    assert {name.split("/")[0] for name in tree(root)} <= {"content", "archive", "."}
    assert not Path("/tmp/agh-out").exists()


@pytest.mark.parametrize(
    "data",
    [
        zipped(GOOD, ("../out", b"x")),
        zipped(GOOD, ("/tmp/agh-out", b"x")),
        zipped(("pkg/agent", b"/bin/sh"), mode=0o120777),
        zipped(GOOD)[:-10],
        b"PK",
    ],
    ids=range(5),
)
def test_a_zip_too(tmp_path: Path, data: bytes) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ArchiveRefused):
        unpack(root, data, "https://x.example/a.zip")
    assert not (root / "out").exists()
    assert not Path("/tmp/agh-out").exists()


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    with pytest.raises(ArchiveRefused, match="more than"):
        unpack(tmp_path, tar(GOOD, ("zeros", bytes(2000))))


def test_without_the_filter_of_newer_pythons_links_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(ArchiveRefused, match="links"):
        unpack(tmp_path, tar(GOOD, link("pkg/same", "agent")))


def test_an_installer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="zip and tar"):
        unpack(tmp_path, b"x", "https://x.example/a.dmg")
