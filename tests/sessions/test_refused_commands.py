"""A refused command has changed nothing: no file of the home, no row of a log, nothing in the repository."""

from __future__ import annotations

import hashlib
import json
import shlex
import sqlite3
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.program import in_process

Snapshot = dict[str, Any]
Cases = dict[str, int]  # the exit number with which a command line is refused

# What may be refused of a session, whether it is live or not. ID is the session.
ANY = {
    "prompt ID": 2,
    "prompt ID ''": 2,
    "prompt ID '  '": 2,
    "prompt ID LARGE": 2,
    "prompt ID hello --attach no-such-file": 2,
    "prompt ID hello --timeout soon": 2,
    "prompt ID hello --retries 99": 2,
    "resume ID --max-cost -1": 2,
    "resume ID --max-cost nan": 2,
    "resume ID --max-turns -1": 2,
    "resume ID --max-time -5m": 2,
    "resume ID --max-cost 9 --ttl never": 2,
    "resume ID --latest": 2,
    "rename ID @last": 2,
    "rename ID sess-1": 2,
    "set ID permissions=sometimes": 2,
    "set ID model=large permissions=sometimes": 2,
    "set ID permissions=sometimes model=large": 2,
    "set ID model=large nonsense": 2,
    "fork ID --at 0": 2,
    "fork ID --at 99999": 2,
    "fork ID --name sess-1": 2,
    "fork ID --name OTHER": 6,
    "rename ID OTHER": 6,
    "queue cancel ID 99": 4,
    "queue retry ID 99": 4,
    "events ID --where 'no such column'": 2,
    "events ID --after x": 2,
    "export ID --to EXISTING": 2,
    "export ID --format nonsense": 2,
    "prune": 2,
}
LIVE = {
    "resume ID --agent other --max-cost 9": 6,
    "resume ID --max-cost 9 --holder somebody-else": 6,
    "detach ID --holder somebody-else": 6,
    "set ID nonsense=1": 2,
    "set ID model=nonsense": 2,
    "set ID model=large nonsense=1": 2,
    "set ID mode=code model=nonsense": 2,
    "set ID permissions=deny-all model=nonsense": 2,
    "archive ID": 6,
    "delete ID": 6,
    "repair ID": 6,
    "checkpoint ID --rebuild": 6,
    "approve ID perm-none": 4,
    "deny ID perm-none": 4,
    "deny ID": 4,
    "cancel ID": 6,
}
STOPPED = {
    "resume ID --agent nobody": 4,
    "resume ID --agent nobody --max-cost 9": 4,
    "resume ID --attach-only": 6,
    "resume ID --attach-only --max-cost 9": 6,
    "approve ID": 7,
    "deny ID perm-none": 7,
    "cancel ID": 7,
    "checkpoint ID": 4,
}
ARCHIVED = {
    "resume ID": 6,
    "resume ID --max-cost 9": 6,
    "resume ID --agent echo": 6,
    "prompt ID hello": 6,
    "archive ID --undo": 6,
}
GONE = {
    "resume ID": 4,
    "resume ID --max-cost 9": 4,
    "prompt ID hello": 4,
    "fork ID": 4,
}
NEW = {
    "session new --agent nobody": 4,
    "session new --agent echo --name live-one": 6,
    "session new --agent echo --name live-one --replace": 6,
    "session new --agent echo --replace": 2,
    "session new --agent nobody --name stopped-one --replace": 4,
    "session new --agent echo --model nonsense --name stopped-one --replace": 2,
    "run --agent echo --name live-one hello": 6,
    "run --agent echo --rm --keep hello": 2,
    "run --agent echo --continue hello": 2,
    "session new --agent echo --name sess-1": 2,
    "session new --agent echo --permissions sometimes": 2,
    "session new --agent echo --model nonsense": 2,
    "session new --agent echo --mode nonsense": 2,
    "session new --agent echo --option nonsense=1": 2,
    "session new --agent echo --option nonsense": 2,
    "session new --agent echo --max-cost -1": 2,
    "session new --agent echo --max-time never": 2,
    "session new --agent echo --on nowhere": 4,
    "session new --agent echo --workspace no-such-directory": 4,
    "session new --agent echo --allowed-tools '('": 2,
    "session new --agent echo --system-prompt ''": 2,
    "session new --agent echo --system-prompt short": 2,
    "session new --agent echo --system-prompt @no-such-file": 2,
    "session new --command ''": 2,
    "session new --command '\"'": 2,
    "session new --agent echo --worktree main": 6,
    "session new --agent echo --worktree 'not a branch'": 2,
    "session new --agent echo --worktree fresh --model nonsense": 2,
    "session new --agent echo --worktree fresh --on nowhere": 4,
    "session new --agent nobody --worktree fresh": 4,
    "session new --agent echo --worktree fresh --name live-one": 6,
    "session ensure --name live-one --agent nobody": 6,
    "session ensure --name brand-new --agent nobody": 4,
    "session ensure --name brand-new --agent echo --model nonsense": 2,
    "run": 2,
    "run '' --agent echo": 2,
    "run hello --agent nobody": 4,
    "run hello --agent echo --model nonsense": 2,
    "run hello --agent echo --timeout soon": 2,
    "run hello --agent echo --attach no-such-file": 2,
    "compare echo nobody hello": 4,
    "compare echo hello --permissions sometimes": 2,
    "compare echo hello --max-cost -1": 2,
    "session import BAD": 2,
    "session import no-such-file": 2,
    "session import --from nonsense": 2,
    "session import": 2,
    "session status nobody": 4,
    "config set nonsense 1": 2,
    "config set permissions.mode sometimes": 2,
    "workspace add no-such-directory": 4,
    "workspace show nobody": 4,
    "workspace remove nobody": 4,
}


def snapshot(live: Live) -> Snapshot:
    """Return the bytes of every file of the home, the rows of every log, and what the repository has."""
    files: Snapshot = {}
    for path in sorted(live.home.rglob("*")):
        name = str(path.relative_to(live.home))
        if path.name == "events.db":
            files |= {f"{name}: {table}": digest for table, digest in _rows(path).items()}
        elif name != "worktrees" and not path.name.startswith("events.db-"):  # the folder may stay, empty
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
            if path.name == "meta.json":
                files |= {f"{name}: {key}": value for key, value in json.loads(path.read_bytes()).items()}
    state = [(path, path.lstat()) for path in sorted(live.workspace.rglob("*"))]
    files |= _repository(live.workspace, repr(state))
    return files


@cache
def _repository(directory: Path, state: str) -> Snapshot:
    """Return what the repository has. While the `state` of its files is the same, git is not asked again."""
    commands = ("branch --list", "worktree list", "status --short")
    return {command: _git(directory, *command.split()) for command in commands}


def _rows(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {table: repr(connection.execute(f"SELECT * FROM {table}").fetchall()) for (table,) in tables}
    finally:
        connection.close()


def _git(directory: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *identity, *args], cwd=directory, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def module_sessions(module_live: Live) -> dict[str, Session]:
    """Sessions in a repository: one live and attached to, the others stopped for different reasons."""
    live = module_live
    live.configure("[session]\ninput_bytes = 1000\n")
    _git(live.workspace, "init", "-q", "-b", "main")
    _git(live.workspace, "commit", "-q", "--allow-empty", "-m", "first")
    workspaces = dict.fromkeys(("archived", "stopped", "live"), live.workspace)
    workspaces["gone"] = live.home.parent / "gone"
    workspaces["gone"].mkdir()
    sessions_by_name = {name: live.new(args=("--workspace", path)) for name, path in workspaces.items()}
    for name, session in sessions_by_name.items():
        session.tell("hello")
        if name != "live":
            session.stop()
    sessions_by_name["archived"].agh("rename", "stopped-one")
    sessions_by_name["archived"].agh("archive")
    sessions_by_name["stopped"].agh("rename", "stopped-one")
    sessions_by_name["live"].agh("rename", "live-one")
    sessions_by_name["live"].agh("resume", "--holder", "me", "--ttl", "1h")
    workspaces["gone"].rmdir()
    return sessions_by_name


@pytest.fixture
def sessions(shared_live: Live, module_sessions: dict[str, Session]) -> dict[str, Session]:
    """Return the sessions that the tests share: whatever they ask for is refused and changes nothing."""
    return module_sessions


def check(live: Live, tmp_path: Path, cases: Cases, session: Session | None = None, other: str = "") -> None:
    """Run the commands; fail with those that were not refused as they should be, or changed something."""
    existing, bad = tmp_path / "existing.jsonl", tmp_path / "bad.jsonl"
    existing.write_text("mine")
    bad.write_text('{"schema": "agh.export.v1"}\n{"half": ')
    words = {"LARGE": "x" * 2000, "EXISTING": str(existing), "BAD": str(bad), "OTHER": other}
    words["ID"] = session.id if session else ""
    problems, before = [], snapshot(live)
    for line, code in cases.items():
        args = [words.get(word, word) for word in shlex.split(line)]
        if session:
            ended = in_process("session", *args, cwd=live.workspace)
        else:  # only the installed program starts a keeper ahead, for a session that then is refused
            ended = live.agh(*args, code=None, by_exec=args[:2] == ["session", "new"])
        after = snapshot(live)
        changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        if ended.returncode != code:
            problems.append(f"{line}: exit {ended.returncode}, not {code}: {ended.stderr.strip()}")
        if changed:
            problems.append(f"{line}: changed {', '.join(changed)}")
        before = after
    assert problems == []
    assert existing.read_text() == "mine"


def test_what_a_live_session_refuses(shared_live: Live, sessions: dict[str, Session], tmp_path: Path) -> None:
    check(shared_live, tmp_path, ANY | LIVE, sessions["live"], other="stopped-one")


def test_what_a_stopped_session_refuses(
    shared_live: Live, sessions: dict[str, Session], tmp_path: Path
) -> None:
    check(shared_live, tmp_path, ANY | STOPPED, sessions["stopped"], other="live-one")


def test_what_an_archived_session_refuses(
    shared_live: Live, sessions: dict[str, Session], tmp_path: Path
) -> None:
    check(shared_live, tmp_path, ARCHIVED, sessions["archived"])


def test_what_a_session_without_its_workspace_refuses(
    shared_live: Live, sessions: dict[str, Session], tmp_path: Path
) -> None:
    check(shared_live, tmp_path, GONE, sessions["gone"])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_a_session_that_cannot_be_had(
    shared_live: Live, sessions: dict[str, Session], tmp_path: Path, part: int
) -> None:
    check(shared_live, tmp_path, dict([*NEW.items()][part::2]))


@pytest.mark.parametrize("end", ["well", "killed"])
def test_keys_that_others_can_read_are_refused(talked: Session, tmp_path: Path, end: str) -> None:
    """Nothing changes but the keeper's log, which says why."""
    session, live = talked, talked.live
    if end == "killed":
        session.revive()
        session.kill_keeper()
    keys = tmp_path / "keys"
    keys.write_text("KEY=secret\n")
    keys.chmod(0o644)
    live.configure(f"[env]\nfile = '{keys}'\n")
    _git(live.workspace, "init", "-q")
    log = f"sessions/{session.id}/keeper.log"
    before = {key: value for key, value in snapshot(live).items() if key != log}
    for verb, *args in (("resume",), ("prompt", "hello")):
        assert session.error(verb, *args, code=5)["hint"] == f"chmod 600 {keys}"
    assert {key: value for key, value in snapshot(live).items() if key != log} == before
    keys.chmod(0o600)
    assert session.say("and now?") == "echo: and now?"
