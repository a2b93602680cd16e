"""Sessions made on disk without any agent, through the same store that the keeper uses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import Draft, Row, draft, marker
from agh.home import Session, ensure_home, make_private_dir, new_session_id
from agh.store import lock, meta
from agh.store.create import create_log
from agh.store.lock import Lock
from agh.store.writer import Writer

AT = "2026-04-16T01:00:00.000Z"
ROOT = Path(__file__).parents[2]


class Home:
    """An AGH_HOME under a test's control."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def session(self, drafts: Iterable[Draft] = (), **fields: Any) -> Path:
        """Make a stopped session with these events; `fields` overrides its metadata."""
        directory = self.directory(**fields)
        with take_lock(directory) as owner:
            create_log(owner)
            if drafts:
                with Writer(owner, "general") as log:
                    log.append(drafts)
        return directory

    def directory(self, **fields: Any) -> Path:
        """Make a session directory with metadata and no log."""
        ensure_home()
        session_id = fields.pop("id", None) or new_session_id()
        directory = self.path / "sessions" / session_id
        make_private_dir(str(directory))
        record: Any = {
            "id": session_id,
            "name": None,
            "agent_name": "general",
            "workspace_id": "repo-alpha",
            "workspace_path": "/absolute/path/to/repo",
            "state": "stopped",
            "stop_reason": "completed",
            "created_at": AT,
            "updated_at": AT,
            **fields,
        }
        meta.write(Session.at(directory), record)
        return directory


@contextmanager
def shared_home(factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Yield a home to be filled once and read by many tests."""
    path = factory.mktemp("shared") / "agh"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGH_HOME", str(path))
        yield Home(path)


def take_lock(directory: Path) -> Lock:
    owner = lock.take(Session.at(directory))
    assert owner is not None
    return owner


def rows(drafts: Sequence[Draft], start: int = 1) -> list[Row]:
    """Return drafts as they would be stored."""
    return [
        Row(number, draft.turn_id, draft.type, "general", draft.content, draft.timestamp)
        for number, draft in enumerate(drafts, start)
    ]


def user(text: str, turn: str = "turn-1", **fields: Any) -> Draft:
    return draft("user_message", turn_id=turn, text=text, **fields)


def says(text: str, turn: str = "turn-1", **fields: Any) -> Draft:
    return draft("agent_message", turn_id=turn, text=text, **fields)


def thinks(text: str, turn: str = "turn-1", **fields: Any) -> Draft:
    return draft("thought", turn_id=turn, text=text, **fields)


def calls(call: str, name: str = "Read", turn: str = "turn-1", **fields: Any) -> Draft:
    return draft("tool_call", turn_id=turn, tool_call_id=call, tool_name=name, **fields)


def returns(call: str, turn: str = "turn-1", **fields: Any) -> Draft:
    fields = {"tool_result": {"content": "package session"}, "tool_error": False, **fields}
    return draft("tool_result", turn_id=turn, tool_call_id=call, **fields)


def finishes(turn: str = "turn-1", **fields: Any) -> Draft:
    return draft("done", turn_id=turn, **{"stop_reason": "end_turn", **fields})


def conversation() -> list[Draft]:
    """Return a turn with everything in it."""
    return [
        user("Explain the stop path."),
        thinks("Need the lifecycle "),
        thinks("code path."),
        calls("call-1", tool_input={"path": "session.go"}, title="Read session.go"),
        draft("usage", turn_id="turn-1", usage={"input_tokens": 10}),
        returns("call-1"),
        says("AGH first marks "),
        says("the session stopping..."),
        marker("context_reset", "the agent forgot"),
        finishes(),
    ]


@contextmanager
def child(code: str, *args: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run `code` in a Python process, whose pipes are closed and which is gone when the block ends."""
    argv = [sys.executable, "-c", code, *map(str, args)]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT, **options}
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        finally:
            process.kill()
