"""Which sessions can be resumed: `list --resumable`, `resume --latest`, and `--why` of the others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agh.home import new_session_id
from tests.support.live import Live, Session
from tests.support.resume import edit_meta


def _why(live: Live) -> dict[str, str | None]:
    """Return the code of what keeps each session from being resumed."""
    views = json.loads(live.agh("session", "list", "--resumable", "--why", "-o", "json").stdout)["sessions"]
    return {view["id"]: view["why_not"] and view["why_not"]["code"] for view in views}


def _resumable(live: Live, *args: str) -> list[str]:
    result = live.agh("session", "list", "--resumable", "-o", "json", *args)
    return [view["id"] for view in json.loads(result.stdout)["sessions"]]


def _copy(session: Session, **changes: Any) -> Session:
    """Return another stopped session like this, but for these changes of its metadata."""
    copy = session.live.session(new_session_id())
    shutil.copytree(session.directory, copy.directory)
    edit_meta(copy, id=copy.id, **changes)
    return copy


def test_what_cannot_be_resumed_is_left_out_and_why_says_so(
    live: Live, talked: Session, tmp_path: Path
) -> None:
    fine, gone = talked, tmp_path / "gone"
    in_gone = _copy(fine, workspace_path=str(gone))
    no_log, empty_log, damaged = (_copy(fine) for _ in range(3))
    (no_log.directory / "events.db").unlink()
    (empty_log.directory / "events.db").write_bytes(b"")
    no_agent = _copy(fine, agent_name="nobody", command=None)
    (damaged.directory / "meta.json").write_text("{")
    assert _resumable(live) == [fine.id]
    assert _why(live) == {
        fine.id: None,
        in_gone.id: "workspace_gone",
        no_log.id: "events_missing",
        empty_log.id: "events_empty",
        no_agent.id: "agent_not_found",
        damaged.id: "meta_invalid",
    }
    text = live.agh("session", "list", "--resumable", "--why").stdout
    assert f"{gone}" in text and "events.db is missing" in text
    result = live.agh("session", "resume", "--latest", "--why", "-o", "json")
    assert json.loads(result.stdout)["session"]["id"] == fine.id
    assert no_log.id in result.stderr and "events.db is missing" in result.stderr


def test_nothing_is_eligible(live: Live, talked: Session) -> None:
    log, elsewhere = talked.directory / "events.db", talked.live.home / "elsewhere"
    log.rename(elsewhere)
    result = live.agh("session", "resume", "--latest", "-o", "json")
    assert json.loads(result.stdout) == {"resumed": None, "reason": "no_eligible_sessions"}
    assert _resumable(live) == []
    elsewhere.rename(log)


def test_a_lease_of_another_holder(live: Live, talked: Session) -> None:
    older, newer = talked, live.new()
    newer.call("attach", holder="somebody", ttl=600)
    assert _resumable(live) == [older.id]
    assert _why(live)[newer.id] == "session_not_attachable"
    latest = ("session", "resume", "--latest", "--holder", "me", "-o", "json")
    assert json.loads(live.agh(*latest).stdout)["session"]["id"] == older.id
    older.stop()
    older.agh("archive")
    result = live.agh("session", "resume", "--latest", "--holder", "somebody", "-o", "json")
    assert json.loads(result.stdout)["session"]["id"] == newer.id
    assert json.loads(live.agh(*latest, "--steal").stdout)["session"]["id"] == newer.id


def test_why_needs_something_to_explain(live: Live) -> None:
    live.agh("session", "list", "--why", code=2)
    live.agh("session", "resume", "@last", "--why", code=2)


@pytest.mark.parametrize("spoil", ["file", "loop"])
def test_a_workspace_that_cannot_be_resolved_has_an_error(
    live: Live, talked: Session, tmp_path: Path, spoil: str
) -> None:
    session, workspace = talked, tmp_path / "place"
    edit_meta(session, workspace_path=str(workspace))
    workspace.write_text("a file") if spoil == "file" else os.symlink(workspace, workspace)
    before = session.events()
    error = session.error("resume", code=4)
    assert error["code"] == "workspace_unresolved"
    assert str(workspace) in error["message"]
    assert session.error("prompt", "hello", code=4)["code"] == "workspace_unresolved"
    assert (session.events(), _resumable(live)) == (before, [])
    workspace.unlink()
    assert session.error("resume", code=4)["code"] == "workspace_gone"
