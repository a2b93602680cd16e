"""Files that an agent of the official SDK reads and writes through agh: only inside the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from tests.interop.conftest import Session, World, step


def test_files(permissive: Session) -> None:
    place = permissive.workspace / "files"
    (place / "real").mkdir(parents=True)
    (place / "link").symlink_to(place / "real")
    (place / "lines.txt").write_text("one\ntwo\nthree\nvier ü\n")
    (place / "latin.txt").write_bytes(b"\xff\xfe\xfa")
    (place / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    turn = permissive.prompt(
        step("read", path=f"{place}/lines.txt"),
        step("read", path=f"{place}/lines.txt", line=2),
        step("read", path=f"{place}/lines.txt", line=2, limit=1),
        step("read", path=f"{place}/lines.txt", limit=2),
        step("read", path=f"{place}/lines.txt", line=99),
        step("write", path=f"{place}/new/deep/file.txt", content="a\r\nb\n\U0001f600"),
        step("write", path=f"{place}/link/through.txt", content="within"),
        step("read", path=f"{place}/real/../real/through.txt"),
        step("read", path=f"{place}/dos.txt"),
        step("read", path=f"{place}/dos.txt", line=2),
        step("read", path=f"{place}/no-such-file"),
        step("read", path=f"{place}/real"),
        step("read", path=f"{place}/latin.txt"),
    )
    whole, tail, one, two, beyond, new, through, read, dos, dos_tail, *errors = turn.results
    assert whole == "one\ntwo\nthree\nvier ü\n"
    assert (tail, one, two, beyond) == ("two\nthree\nvier ü\n", "two\n", "one\ntwo\n", "")
    assert new == through == {}
    assert (place / "new/deep/file.txt").read_bytes() == "a\r\nb\n\U0001f600".encode()
    assert read == "within"
    assert (dos, dos_tail) == ("one\r\ntwo\r\n", "two\r\n")  # to be written back as they were
    assert [code for code, _ in errors] == [-32002, -32603, -32603]


def test_nothing_outside_the_workspace_is_read_or_written(permissive: Session) -> None:
    """Whatever the mode is, and whatever a person says."""
    place, outside = permissive.workspace, permissive.workspace.with_name("workspace-sibling")
    outside.mkdir()
    secret = outside / "secret.txt"
    secret.write_text("secret")
    (place / "dir-link").symlink_to(outside)
    (place / "file-link").symlink_to(secret)
    (place / "dangling").symlink_to(outside / "not-yet.txt")
    paths = [
        str(secret),
        "/etc/passwd",
        f"{place}/../{outside.name}/secret.txt",
        f"{place}/dir-link/secret.txt",
        f"{place}/file-link",
    ]
    new = [f"{place}/dangling", f"{place}/dir-link/deep/new.txt", f"{outside}/new.txt"]
    running = permissive.start(
        *(step("read", path=path) for path in paths),
        *(step("write", path=path, content="overwritten") for path in paths + new),
        step("read", path="file.txt"),
        step("create", command="true", args=["x"], cwd=str(outside)),
        step("create", command="true", args=["x"], cwd=f"{place}/dir-link"),
    )
    while permissive.pause():
        permissive.decide("allow")
    turn = running.end()
    assert secret.read_text() == "secret"
    assert [file.name for file in outside.iterdir()] == ["secret.txt"]
    *refused, relative, here, there = turn.results
    assert len(refused) == 2 * len(paths) + len(new)
    for result in [*refused, here, there]:
        assert "outside the workspace" in result[1]
    assert relative[0] == -32602


def test_nobody_is_asked_about_what_is_refused_anyway(world: World) -> None:
    """Nor does the log call it allowed."""
    session = world.new("--permissions", "approve-reads")
    running = session.start(
        step("read", path="/etc/passwd"), step("write", path=f"{world.root}/new.txt", content="x")
    )
    assert session.pause() == []
    assert {event.get("decision") for event in running.end().of("permission")} == {"denied"}


def test_a_fifo_does_not_stop_the_keeper(permissive: Session) -> None:
    fifo = permissive.workspace / "fifo"
    os.mkfifo(fifo)
    running = permissive.start(
        step("read", path=str(fifo)), step("write", path=str(fifo), content="x"), step("echo", text="alive")
    )
    try:
        running.wait_for('"type":"done"', limit=10.0)
    finally:
        let_go(fifo)
    read, written, alive = running.end().results
    assert str(fifo) in read[1]
    assert str(fifo) in written[1]
    assert alive == "alive"


def let_go(fifo: Path) -> None:
    """End the wait of whoever has opened this to read."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass
