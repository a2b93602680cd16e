"""A copy of a home has the launch cookies of the original: it must never end the original's processes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.live import Live, Session, living
from tests.support.processes import is_alive
from tests.support.wait import wait_until


def copy_home(live: Live, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(live.home, copy, ignore=shutil.ignore_patterns("*.sock"))
    os.chmod(copy, 0o700)
    return copy


@pytest.mark.parametrize("command", ["stop", "repair", "resume", "prompt", "delete"])
def test_no_command_in_a_copy_ends_the_original(live: Live, tmp_path: Path, command: str) -> None:
    session = live.new()
    session.send("/spawn-setsid 300\n/say begun\n/sleep 300")
    session.wait_for_text("begun")
    pids = [session.keeper, session.leash, session.agent, *(one.pid for one in live.processes())]
    other = Live(copy_home(live, tmp_path), live.workspace)
    twin = Session(other, session.id)
    try:
        twin.agh(command, *(["hello"] if command == "prompt" else []))
        assert all(map(is_alive, set(pids))), "the original lives"
        checks = json.loads(other.agh("doctor", "-o", "json", code=None).stdout)["doctor"]
        assert [check["ok"] for check in checks if check["name"] == "orphans"] == [True]
    finally:
        if twin.directory.exists():
            twin.agh("stop")
    assert all(map(is_alive, set(pids)))


def test_a_home_that_was_moved_still_ends_what_its_launch_left(live: Live, tmp_path: Path) -> None:
    from tests.support.processes import carrying

    session = live.new()
    session.send("/spawn-setsid 300\n/say begun\n/sleep 300")
    session.wait_for_text("begun")
    from tests.faults.test_orphans import kill_both

    cookie = kill_both(session)
    wait_until(lambda: carrying(cookie))
    moved = tmp_path / "moved"
    os.rename(live.home, moved)
    try:
        with living(moved, live.workspace) as other:
            Session(other, session.id).agh("repair")
            assert carrying(cookie) == []
    finally:
        os.rename(moved, live.home)
