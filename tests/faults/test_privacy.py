"""What belongs to the user alone stays so: modes under any umask, links that lead out of the home."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from tests.support.files import modes
from tests.support.live import Live
from tests.support.wait import wait_until

OUTSIDE = b"somebody else's\n"
FILES = ("meta.json", "lock", "events.db", "events.db-wal", "events.db-shm", "keeper.log", "keeper.sock")


def open_modes(top: Path) -> dict[str, int]:
    """Return the modes that let anyone but the owner in, by path."""
    return {
        str(path.relative_to(top)): stat.S_IMODE(mode)
        for path, mode in modes(top).items()
        if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    }


def test_every_file_is_private_under_umask_000(live: Live, tmp_path: Path) -> None:
    """Looked at while sessions are live, after a crash, a pause, a hand-over and a repair."""
    argv = ("session", "new", "--agent", "echo", "--name")
    crashed = live.session(live.agh(*argv, "crashed", umask=0).stdout.strip())
    assert open_modes(live.home) == {}
    crashed.prompt("/say begun\n/crash", umask=0, code=7)
    paused = live.session(live.agh(*argv, "paused", umask=0).stdout.strip())
    paused.prompt("hello", umask=0)
    paused.agh("pause", umask=0)
    live.agh("session", "fork", "paused", umask=0)
    crashed.agh("repair", umask=0)
    crashed.prompt("hello", umask=0)
    kinds = {path.name for path in live.home.rglob("*")}
    assert kinds >= {"events.db", "events.db-wal", "events.db-shm", "keeper.sock", "keeper.log", "lock"}
    assert kinds >= {"meta.json", "crash-bundles"}
    assert open_modes(live.home) == {}
    made = tmp_path / "user"
    assert {name: mode for name, mode in open_modes(made).items() if "agh" in name and mode & 0o077} == {}


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_place_of_a_file_is_not_written_through(live: Live, tmp_path: Path, dangling: bool) -> None:
    session, outside = live.new(), tmp_path / "outside"
    session.tell("hello")
    session.stop()
    for name in FILES:
        kept, linked = tmp_path / "kept", session.directory / name
        shutil.copytree(session.directory, kept)
        linked.unlink(missing_ok=True)
        linked.symlink_to(outside)
        if not dangling:
            outside.write_bytes(OUTSIDE)
            outside.chmod(0o644)
        for verb in ("repair", "resume"):
            result = session.agh(verb, code=None)
            assert result.returncode in (0, 5, 8), (name, verb, result.stderr)
        if result.returncode == 0:  # it was resumed
            session.stop()
        wait_until(lambda: not session.is_live())  # a keeper that was refused has the lock for a moment
        assert outside.exists() is not dangling, f"something was made behind {name}"
        if not dangling:
            assert outside.read_bytes() == OUTSIDE, name
            assert stat.S_IMODE(outside.stat().st_mode) == 0o644, name
        shutil.rmtree(session.directory)
        kept.rename(session.directory)


@pytest.mark.parametrize("where", ["sessions", "session"])
def test_a_linked_directory_is_only_ever_the_users_own(live: Live, tmp_path: Path, where: str) -> None:
    """To delete a session behind a link takes the link, never what it leads to."""
    session = live.new()
    session.stop()
    folder = tmp_path / "elsewhere"
    linked = session.directory if where == "session" else session.directory.parent
    linked.rename(folder)
    linked.symlink_to(folder)
    (folder / "precious").write_bytes(OUTSIDE)
    assert session.say("hello") == "echo: hello"
    session.stop()
    session.agh("delete")
    assert not session.directory.exists()
    assert (folder / "precious").read_bytes() == OUTSIDE
