"""A disk without room: the command that meets it says so, and nothing more is broken than that."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import Live, Session, living
from tests.support.mounts import fill, small_disk
from tests.support.resume import copy_stopped
from tests.support.wait import wait_until

SIZE = 4 << 20


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Live]:
    """A home on a small disk of its own."""
    with small_disk(tmp_path / "disk", getattr(request, "param", SIZE)) as disk:
        monkeypatch.setenv("AGH_HOME", str(disk / "agh"))
        monkeypatch.setenv("AGH_ECHO_HOME", str(tmp_path / "echo"))
        with living(disk / "agh", tmp_path / "work") as made:
            made.configure("[session]\nreserve_bytes = 0")
            yield made


@pytest.fixture
def stopped(full: Live, talked_home: Path, tmp_path: Path) -> Session:
    """Return a stopped session on the small disk that has had a turn."""
    settings = (full.home / "config.toml").read_text()
    shutil.rmtree(full.home)
    copy_stopped(talked_home, tmp_path, full.home)
    full.configure(settings)
    (session,) = full.sessions()
    return session


def disk_of(live: Live) -> Path:
    return live.home.parent


def check_named(stderr: str) -> None:
    assert "Traceback" not in stderr
    assert "no space left on device" in stderr.lower() or "disk is full" in stderr.lower(), stderr
    assert "df -h" in stderr


@pytest.mark.parametrize("leave", [0, 4096, 40_960, 200_000])
def test_the_prompt_that_meets_it(full: Live, leave: int) -> None:
    session = full.new()
    session.tell("hello")
    ballast = fill(disk_of(full), leave)
    done = session.prompt("/stream 2000 0 800\n/say ended", "-o", "text", code=None)
    assert done.returncode == 8, (done.returncode, done.stdout[-100:], done.stderr)
    check_named(done.stderr)
    wait_until(lambda: not session.is_live())
    ballast.unlink()
    assert session.say("what did I say?").startswith("SEEN")
    session.check_log()


def test_the_prompt_that_resumes_on_a_full_disk(full: Live, stopped: Session) -> None:
    ballast = fill(disk_of(full))
    result = stopped.prompt("hello", code=None)
    assert result.returncode not in (0, 70)
    check_named(result.stderr)
    ballast.unlink()
    assert stopped.say("/say again") == "again"


COMMANDS = [
    ("session", "new", "--agent", "echo", "--name", "other"),
    ("session", "rename", "ID", "other"),
    ("session", "archive", "ID"),
    ("session", "fork", "ID"),
    ("session", "checkpoint", "ID", "--rebuild"),
    ("config", "set", "agent", "echo"),
    ("run", "--agent", "echo", "hello"),
    ("session", "import", "FILE"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_commands_that_write(full: Live, stopped: Session, tmp_path: Path, command: tuple[str, ...]) -> None:
    session = stopped
    if "checkpoint" in command:
        session.revive()
        session.agh("pause")
    session.agh("export", "-o", "jsonl", "--output", tmp_path / "export")
    ballast = fill(disk_of(full))
    before = set(full.home.rglob("*"))
    words = [{"ID": session.id, "FILE": str(tmp_path / "export")}.get(word, word) for word in command]
    done = full.agh(*words, *(["--new-id"] if "import" in command else []), code=None)
    assert done.returncode not in (0, 70), (done.stdout, done.stderr)
    check_named(done.stderr)
    ballast.unlink()
    after = {path for path in full.home.rglob("*") if path.name not in ("lock", "keeper.log")}
    assert {path for path in after - before if path.name.startswith(".")} == set()
    assert session.say("/say again", code=None) == "again" or "archive" in command


def test_commands_that_read_work(full: Live, stopped: Session) -> None:
    fill(disk_of(full))
    for verb in ("status", "events", "transcript", "history", "recap"):
        stopped.agh(verb)
    full.agh("session", "list")
    checks = json.loads(full.agh("doctor", "-o", "json", code=8).stdout)["doctor"]
    assert [check["name"] for check in checks if not check["ok"]] == ["disk"]
    assert os.statvfs(disk_of(full)).f_bavail == 0


def test_a_prompt_that_is_watched_when_its_keeper_cannot_write(full: Live) -> None:
    session: Session = full.new()
    with session.start_prompt(
        "/say begun\n/sleep 1\n/stream 3000 0 800\n/say ended", "-o", "json"
    ) as watcher:
        session.wait_for_text("begun")
        fill(disk_of(full))
        _, err = watcher.communicate(timeout=40)
    assert watcher.returncode == 8, err
    error = json.loads(err.splitlines()[-1])["error"]
    assert error["code"] == "store_failed"


@pytest.mark.parametrize("full", [24 << 20], indirect=True)
def test_a_reserve_of_free_space_is_kept(full: Live) -> None:
    full.configure("[session]\nreserve_bytes = 12_000_000")
    session = full.new()
    turn = session.send("/stream 6000 0 4000\n/say ended\n/sleep 60")
    wait_until(lambda: not session.is_live(), 60)
    assert (session.meta()["stop_reason"], session.meta()["stop_detail"]) == ("disk_low", "reserve_bytes")
    assert session.events()[-1].type == "session_paused"
    assert os.statvfs(disk_of(full)).f_bavail * os.statvfs(disk_of(full)).f_frsize > 2_000_000
    assert session.has_ended(turn)
    fill(disk_of(full), 8_000_000)
    error = session.error("prompt", "more", code=1)
    assert error["code"] == "disk_full"
    assert "session.reserve_bytes" in error["message"]
    full.configure("[session]\nreserve_bytes = 0")
    assert session.say("/say again") == "again"
