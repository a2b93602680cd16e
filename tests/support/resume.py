"""Stopped sessions that have had a turn: made once per worker by the program, then copied for each test.

A session is a directory, so a copy of it (and of what its agent remembers) is as good as a new one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.live import ECHO, Live, Session
from tests.support.program import Agh
from tests.support.wait import wait_until

WORDS = "remember me"
RECALL = "what did I say?"
SEEN = f'SEEN 2 user texts: "{WORDS}" | "{RECALL}"'  # the agent has its own memory of the session
HEADER = "RESUME CONTEXT FOR CONTINUING TASK"


@pytest.fixture(scope="session")
def talked_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home with one stopped session of one turn, its workspace, and the memory of its agent."""
    root = tmp_path_factory.mktemp("talked")
    work = root / "work"
    for folder in (root / "user", work):
        folder.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("AGH_", "XDG_"))}
    env |= {"HOME": str(root / "user"), "AGH_HOME": str(root / "agh"), "AGH_ECHO_HOME": str(root / "echo")}
    agh = Agh()
    session_id = agh("session", "new", "--agent", "echo", cwd=work, env=env).stdout.strip()
    try:
        agh("session", "prompt", session_id, WORDS, cwd=work, env=env)
    finally:
        agh("session", "stop", session_id, cwd=work, env=env)
    return root


def copy_stopped(root: Path, target: Path, home: Path | None = None) -> None:
    """Copy a home of stopped sessions into `target`, or elsewhere, and the memory of their agents."""
    home = home or target / "agh"
    shutil.copytree(root / "agh", home, ignore=shutil.ignore_patterns("keeper.sock"))
    shutil.copytree(root / "echo", target / "echo")
    for path in (*home.glob("sessions/*/meta.json"), *target.glob("echo/*.jsonl")):
        path.write_text(path.read_text().replace(str(root / "work"), str(target / "work")))


@pytest.fixture
def talked(live: Live, talked_home: Path, tmp_path: Path) -> Iterator[Session]:
    """Yield a stopped session whose agent was told `remember me` and has answered."""
    copy_stopped(talked_home, tmp_path)
    (session,) = live.sessions()
    yield session
    if session.directory.exists():  # it may have been deleted
        session.check_log()


def resume(session: Session, options: str = "", *args: object, **more: Any) -> CompletedProcess[str]:
    """Run `agh session resume -o json`; the agent gets these options of the echo."""
    return session.agh("resume", *args, "-o", "json", env={"AGH_ECHO_OPTIONS": options}, **more)


def restored(session: Session, options: str = "", *args: object) -> dict[str, Any]:
    """Resume the session; return how its conversation was restored."""
    restore: dict[str, Any] = json.loads(resume(session, options, *args).stdout)["restore"]
    return restore


def refused(session: Session, options: str = "", *args: object, code: int = 1) -> dict[str, Any]:
    """Return the error object of a resume that must fail, and that leaves nothing running."""
    result = resume(session, options, *args, code=code)
    assert result.stdout == ""
    wait_until_gone(session)
    error: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])["error"]
    return error


def wait_until_gone(session: Session) -> None:
    """Wait until neither a keeper nor an agent is left."""
    wait_until(lambda: not session.is_live() and not session.live.processes(), what="nothing is left running")


def edit_meta(session: Session, **changes: Any) -> None:
    """Change the metadata of a stopped session by hand."""
    (session.directory / "meta.json").write_text(json.dumps({**session.meta(), **changes}))


def define(live: Live, name: str, *options: str, **fields: Any) -> None:
    """Define an agent of the user's own: the echo with these options, unless `argv` says otherwise."""
    fields = {"argv": [*ECHO, *options], **fields}
    folder = live.home / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    live.home.chmod(0o700)
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in fields.items()]
    (folder / f"{name}.toml").write_text("".join(lines))
