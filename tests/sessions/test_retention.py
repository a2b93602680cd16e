"""Sessions that are done with: archived, deleted, pruned, renamed; never while they live."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import timestamp
from tests.support.build import Home, finishes, says, user
from tests.support.files import tree
from tests.support.live import Live, Session
from tests.support.processes import kill
from tests.support.wait import wait_until


def listed(live: Live, *args: str) -> list[str]:
    return [
        session["id"]
        for session in json.loads(live.agh("session", "list", *args, "-o", "json").stdout)["sessions"]
    ]


def code_of(stderr: str) -> str:
    return str(json.loads(stderr.splitlines()[-1])["error"]["code"])


def agent_files(live: Live) -> list[str]:
    return sorted(os.listdir(live.home.parent / "echo"))


def bundles(live: Live) -> list[str]:
    folder = live.home / "logs" / "crash-bundles"
    return sorted(os.listdir(folder)) if folder.exists() else []


def crashed(live: Live, **options: Any) -> Session:
    """Return a session whose agent crashed: it has a crash bundle."""
    session = live.new(**options)
    session.send("/crash")
    wait_until(lambda: not session.is_live())
    return session


def test_archive(live: Live) -> None:
    session, other = live.new(args=("--name", "old")), live.new()
    assert session.error("archive", code=6)["code"] == "session_live"
    session.tell("remembered")
    session.stop()
    view = json.loads(session.agh("archive", "-o", "json").stdout)["session"]
    assert (view["id"], view["archived"]) == (session.id, True)
    assert listed(live) == [other.id]
    assert set(listed(live, "--all")) == {session.id, other.id}
    assert session.id not in listed(live, "--all", "--resumable")
    before = session.meta()
    for command in (("resume",), ("prompt", "more")):
        error = session.error(*command, code=6)
        assert (error["code"], error["hint"]) == (
            "session_archived",
            f"agh session archive {session.id} --undo",
        )
        wait_until(lambda: not session.is_live())
    assert session.meta() == before
    status = session.status()
    assert (status["is_resumable"], status["resume_reason"]) == (False, "archived")
    assert "remembered" in session.agh("transcript").stdout, "it can be read"
    session.agh("archive")
    session.agh("archive", "--undo")
    assert set(listed(live)) == {session.id, other.id}
    assert session.say("what did I say?").startswith("SEEN 2")


def test_the_newest_that_can_be_resumed_is_not_an_archived_one(live: Live) -> None:
    first, second = live.new(), live.new()
    first.stop()
    second.stop()
    second.agh("archive")
    result = live.agh("session", "resume", "--latest", "-o", "json")
    assert json.loads(result.stdout)["session"]["id"] == first.id


def test_the_name_of_an_archived_session_can_be_used_again(live: Live, home: Home) -> None:
    old = home.session(name="fix", archived=True, workspace_path=str(live.workspace))
    new = home.session(name="fix", workspace_path=str(live.workspace))
    assert json.loads(live.agh("session", "status", "fix", "-o", "json").stdout)["session"]["id"] == new.name
    result = live.agh("session", "archive", old.name, "--undo", "-o", "json", code=6)
    assert code_of(result.stderr) == "name_taken"


def test_delete(live: Live) -> None:
    kept, session = live.new(), crashed(live)
    assert kept.error("delete", code=6)["code"] == "session_live"
    assert bundles(live)[0].startswith(f"{session.id}-process_exit-")
    assert len(agent_files(live)) == 2
    own = session.meta()["acp_session_id"]
    result = session.agh("delete", "-o", "json")
    assert json.loads(result.stdout)["deleted"] == {"id": session.id, "not_removed": []}
    assert not session.directory.exists()
    assert bundles(live) == []
    assert agent_files(live) == [f"{kept.meta()['acp_session_id']}.jsonl"]
    assert own not in str(agent_files(live))
    assert code_of(session.agh("status", "-o", "json", code=4).stderr) == "session_not_found"
    left = [path.name for path in (live.home / "sessions").iterdir()]
    assert left == [kept.id]


def test_delete_leaves_the_agents_own_copy_if_asked(talked: Session) -> None:
    talked.agh("delete", "--keep-agent-session")
    assert len(agent_files(talked.live)) == 1
    assert talked.live.sessions() == []


def test_delete_says_what_could_not_be_deleted(live: Live) -> None:
    session = live.new("--caps", "load,delete")
    session.tell("hello")
    session.stop()
    (own,) = agent_files(live)
    file = live.home.parent / "echo" / own
    file.unlink()
    file.mkdir()  # which the agent cannot delete as a file
    result = session.agh("delete", "-o", "json")
    (kept,) = json.loads(result.stdout)["deleted"]["not_removed"]
    assert "the agent's own" in kept
    assert "not deleted" in result.stderr
    assert not session.directory.exists()


def test_delete_takes_every_conversation_that_the_session_had(talked: Session) -> None:
    talked.agh("resume", "--fresh")
    talked.tell("hello again")
    talked.stop()
    assert len(agent_files(talked.live)) == 2
    talked.agh("delete")
    assert agent_files(talked.live) == []


def test_delete_takes_the_conversation_though_an_older_one_is_gone(talked: Session) -> None:
    (own,) = agent_files(talked.live)
    (talked.live.home.parent / "echo" / own).unlink()
    talked.say("hello again")
    talked.stop()
    assert len(agent_files(talked.live)) == 1
    talked.agh("delete")
    assert agent_files(talked.live) == []


def test_delete_of_a_session_that_lost_its_keeper(live: Live) -> None:
    session = live.new()
    session.send("/say begun\n/spawn-setsid 301")
    session.wait_for_text("spawned")
    cookie = session.kill_keeper()
    session.agh("delete")
    assert not session.directory.exists()
    wait_until(
        lambda: not [process for process in live.processes() if process.environ.get("AGH_LAUNCH") == cookie]
    )


def aged(home: Home, days: float, **fields: Any) -> Path:
    at = timestamp(datetime.now(UTC) - timedelta(days=days))
    return home.session([user("hello"), says("hi"), finishes()], updated_at=at, **fields)


def pruned(live: Live, *args: object) -> list[str]:
    found = json.loads(live.agh("session", "prune", *args, "-o", "json").stdout)["pruned"]
    return [item["id"] for item in found]


def test_prune(live: Live, home: Home) -> None:
    ages = (1, 10, 20, 40, 50)
    sessions = [aged(home, days) for days in ages]
    names = [path.name for path in sessions]
    running = live.new()
    before = [tree(path) for path in sessions]
    assert pruned(live, "--older-than", "30d", "--dry-run") == names[3:]
    assert pruned(live, "--older-than", "5d", "--keep", "3", "--dry-run") == names[3:]
    assert pruned(live, "--older-than", "45d", "--keep", "3", "--dry-run") == names[4:]
    assert pruned(live, "--keep", "5", "--dry-run") == []
    assert [tree(path) for path in sessions] == before, "a dry run changes nothing"
    live.agh("session", "prune", code=2)
    assert live.agh("session", "prune", "--older-than", "30d").stdout.split()[::2] == names[3:]
    assert [path.exists() for path in sessions] == [True, True, True, False, False]
    assert pruned(live, "--keep", "1") == names[1:3]
    assert pruned(live, "--keep", "0") == names[:1]
    assert [session.id for session in live.sessions()] == [running.id], "what is live is never removed"
    assert running.tell("/say alive") == "alive"


def test_prune_takes_what_belongs_to_a_session(live: Live) -> None:
    session = crashed(live)
    assert len(bundles(live)) == 1
    assert pruned(live, "--keep", "0") == [session.id]
    assert bundles(live) == []


def test_prune_leaves_alone_what_it_cannot_read(live: Live, home: Home) -> None:
    damaged = aged(home, 40)
    (damaged / "meta.json").write_text("{")
    assert pruned(live, "--keep", "0") == []
    assert damaged.exists()


def test_prune_counts_a_session_that_lost_its_keeper_as_ended(live: Live) -> None:
    session = live.new()
    kill(session.keeper)
    wait_until(lambda: not session.is_live())
    assert pruned(live, "--keep", "0") == [session.id]
    assert live.sessions() == []


@pytest.mark.parametrize("is_live", [True, False])
def test_rename(live: Live, home: Home, is_live: bool) -> None:
    home.session(name="taken", workspace_path=str(live.workspace))
    session = live.new(args=("--name", "first"))
    if not is_live:
        session.stop()
    keeper = session.keeper if is_live else 0
    view = json.loads(live.agh("session", "rename", "first", "second", "-o", "json").stdout)["session"]
    assert (view["id"], view["name"]) == (session.id, "second")
    assert session.meta()["name"] == "second"
    assert (
        json.loads(live.agh("session", "status", "second", "-o", "json").stdout)["session"]["id"]
        == session.id
    )
    live.agh("session", "status", "first", code=4)
    assert session.error("rename", "taken", code=6)["code"] == "name_taken"
    for name in ("sess-1", "@last", "-x", "a\nb", "x" * 101):
        live.agh("session", "rename", session.id, "--", name, code=2)
    assert session.meta()["name"] == "second"
    if is_live:
        assert session.keeper == keeper
        session.tell("hello")
        session.stop()
        assert session.meta()["name"] == "second", "the keeper keeps it"
    session.agh("rename", "")
    assert session.meta()["name"] is None


def test_a_name_can_be_given_twice(live: Live, home: Home) -> None:
    session = home.session(name="mine")
    live.agh("session", "rename", session.name, "mine")
