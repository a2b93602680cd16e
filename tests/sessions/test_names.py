"""Names of sessions: one per workspace, looked up here first, and taken over with --replace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agh.home import session_of
from agh.sessions.new import create
from agh.store import meta
from tests.support.build import Home, conversation
from tests.support.live import Live, Session
from tests.support.wait import wait_until


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def status(live: Live, reference: str, **options: Any) -> str:
    result = live.agh("session", "status", reference, "-o", "json", **options)
    return str(json.loads(result.stdout)["session"]["id"])


def error(live: Live, *args: object, code: int, **options: Any) -> dict[str, Any]:
    result = live.agh(*args, "-o", "json", code=code, **options)
    error: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])["error"]
    return error


def metadata_of(directory: Path) -> meta.Meta:
    return meta.read(session_of(directory.name))


def test_two_workspaces_have_a_session_of_the_same_name(live: Live, elsewhere: Path) -> None:
    here = live.new(args=("--name", "fix"))
    there = live.new(args=("--name", "fix", "--workspace", str(elsewhere)))
    (live.workspace / "src").mkdir()
    assert status(live, "fix") == status(live, "fix", cwd=live.workspace / "src") == here.id
    assert status(live, "fix", cwd=elsewhere) == there.id
    refused = error(live, "session", "status", "fix", code=2, cwd=elsewhere.parent)
    assert refused["code"] == "ambiguous_session"
    assert f"{here.id} in {live.workspace}" in refused["message"]
    assert f"{there.id} in {elsewhere}" in refused["message"]
    there.agh("rename", "other")
    assert status(live, "fix", cwd=elsewhere) == here.id, "it is the only one of that name"


def test_the_nearest_workspace_wins(live: Live) -> None:
    inner = live.workspace / "inner"
    inner.mkdir()
    outer = live.new(args=("--name", "fix"))
    nested = live.new(args=("--name", "fix", "--workspace", str(inner)))
    assert status(live, "fix", cwd=inner) == nested.id
    assert status(live, "fix") == outer.id


def test_an_archived_session_gives_its_name_away(live: Live, home: Home, elsewhere: Path) -> None:
    old = home.session(name="fix", archived=True, workspace_path=str(live.workspace))
    assert status(live, "fix") == old.name
    other = home.session(name="fix", workspace_path=str(elsewhere))
    assert status(live, "fix") == other.name, "one in use elsewhere, rather than one in the archive here"
    new = live.new(args=("--name", "fix"))
    assert status(live, "fix") == new.id


def test_a_home_with_twins_in_one_workspace_still_opens(live: Live, home: Home) -> None:
    ids = [home.session(name="twin", workspace_path=str(live.workspace)).name for _ in range(2)]
    refused = error(live, "session", "status", "twin", code=2)
    assert all(session_id in refused["message"] for session_id in ids)
    live.agh("session", "list", "--all")
    live.agh("session", "rename", ids[0], "other")
    assert status(live, "twin") == ids[1]


def test_of_many_at_once_in_one_workspace_one_has_the_name(live: Live) -> None:
    racers = [live.start("new", "--agent", "echo", "--name", "x", "-o", "json") for _ in range(4)]
    results = [(*racer.communicate(timeout=60), racer.returncode) for racer in racers]
    assert sorted(code for *_, code in results) == [0, *[6] * 3], results
    assert len(live.sessions()) == 1


def test_two_at_once_in_two_workspaces_both_have_it(live: Live, elsewhere: Path) -> None:
    racers = [
        live.start("new", "--agent", "echo", "--name", "x", "--workspace", folder)
        for folder in (live.workspace, elsewhere)
    ]
    assert [racer.wait(60) for racer in racers] == [0, 0]


@pytest.mark.parametrize("command", ["new", "run"])
def test_the_message_for_a_name_that_is_taken_offers_what_to_do(live: Live, command: str) -> None:
    session = live.new(args=("--name", "mine"))
    args = [command, "--agent", "echo", "--name", "mine", *(["hello"] if command == "run" else [])]
    refused = error(live, *args, code=6)
    assert refused["code"] == "name_taken"
    assert session.id in refused["message"]
    assert "agh prompt mine" in refused["hint"] and "agh attach mine" in refused["hint"]
    assert "agh stop mine" in refused["hint"], "it is live: --replace comes after a stop"
    session.stop()
    hint = error(live, *args, code=6)["hint"]
    assert "--replace" in hint and "agh stop" not in hint
    assert [each.id for each in live.sessions()] == [session.id]


@pytest.mark.parametrize("command", ["new", "run"])
def test_replace_takes_the_name_of_a_stopped_session(live: Live, command: str) -> None:
    old = live.new(args=("--name", "mine"))
    args = [
        command,
        "--agent",
        "echo",
        "--name",
        "mine",
        "--replace",
        *(["hello"] if command == "run" else []),
    ]
    refused = error(live, *args, code=6)
    assert (refused["code"], old.is_live()) == ("name_taken", True)
    assert not old.meta()["archived"]
    old.stop()
    live.agh(*args)
    (new,) = [session for session in live.sessions() if session.id != old.id]
    assert status(live, "mine") == new.id
    assert old.meta()["archived"] and old.meta()["name"] == "mine"
    if new.is_live():
        new.stop()
    assert old.error("archive", "--undo", code=6)["code"] == "name_taken"


def test_replace_without_an_older_session_is_new(live: Live) -> None:
    session = live.new(args=("--name", "mine", "--replace"))
    assert status(live, "mine") == session.id


def test_replace_needs_a_name(live: Live) -> None:
    for command in (["session", "new"], ["run", "hello"]):
        assert "--name" in error(live, *command, "--agent", "echo", "--replace", code=2)["message"]
    assert live.sessions() == []


def test_replace_leaves_other_workspaces_alone(live: Live, home: Home, elsewhere: Path) -> None:
    other = home.session(name="mine", workspace_path=str(elsewhere))
    live.new(args=("--name", "mine", "--replace"))
    assert not metadata_of(other).get("archived")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--command", "no-such-agent"], 9),
        (["--agent", "echo", "--model", "no-such-model"], 2),
        (["--agent", "nobody"], 4),
        (["--agent", "echo", "--permissions", "all"], 2),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_replace_that_fails_changes_nothing(live: Live, home: Home, args: list[str], code: int) -> None:
    old = home.session(conversation(), name="mine", workspace_path=str(live.workspace))
    live.agh("session", "new", "--name", "mine", "--replace", *args, code=code)
    wait_until(lambda: [session.id for session in live.sessions()] == [old.name])
    assert status(live, "mine") == old.name
    assert not metadata_of(old).get("archived")


def test_killed_in_between_a_replace_leaves_one_meaning(
    live: Live, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old session is archived before the new one appears: two of one name are never there."""
    old = home.session(name="mine", workspace_path=str(live.workspace))
    seen: list[bool] = []

    class Killed(BaseException):
        pass

    def publish(*_: object) -> None:
        seen.append(bool(metadata_of(old).get("archived")))
        raise Killed

    monkeypatch.setattr("agh.sessions.new.publish", publish)
    with pytest.raises(Killed):
        create(agent="echo", name="mine", workspace=str(live.workspace), replace=True)
    assert seen == [True]
    assert not metadata_of(old).get("archived"), "what can still be undone is undone"


def test_fork_rename_import_and_archive_keep_names_apart_by_workspace(
    live: Live, home: Home, elsewhere: Path
) -> None:
    session = live.new(args=("--name", "mine"))
    other = home.session(conversation(), name="other", workspace_path=str(elsewhere))
    live.agh("session", "rename", other.name, "mine")
    assert session.error("fork", "--name", "mine", code=6)["code"] == "name_taken"
    exported = live.agh("session", "export", other.name).stdout
    (live.workspace / "file.jsonl").write_text(exported)
    for workspace, name in ((live.workspace, None), (elsewhere, "mine")):
        live.agh("session", "delete", other.name)
        live.agh("session", "import", "file.jsonl", "--workspace", workspace)
        assert live.session(other.name).meta()["name"] == name


def test_two_forks_at_once_have_different_names(live: Live) -> None:
    session = live.new()
    racers = [live.start("session", "fork", session.id, "--name", "x") for _ in range(4)]
    assert sorted(racer.wait(60) for racer in racers) == [0, 6, 6, 6]


def test_a_worktree_shares_the_names_of_the_workspace_it_is_from(live: Live, repository: Path) -> None:
    session = live.new(args=("--name", "fix", "--worktree", ""))
    assert error(live, "session", "new", "--agent", "echo", "--name", "fix", code=6)["code"] == "name_taken"
    assert status(live, "fix") == session.id


@pytest.fixture
def repository(live: Live) -> Path:
    import subprocess

    script = "git init -q && git -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m one"
    subprocess.run(["bash", "-c", script], cwd=live.workspace, check=True, timeout=30)
    return live.workspace


def titles(session: Session) -> tuple[object, object]:
    metadata = session.meta()
    return metadata["name"], metadata["title"]


def test_a_session_without_a_name_is_titled_by_its_first_prompt(live: Live) -> None:
    session = live.new()
    session.tell("\n  why does\tthe login   test fail?\nhere is the log")
    assert titles(session) == (None, "why does the login test fail?")
    session.tell("another question")
    assert titles(session) == (None, "why does the login test fail?")
    assert "why does the login test fail?" in live.agh("ls").stdout
    session.tell("/title the login")
    assert titles(session) == (None, "the login"), "the agent knows better"
    long = live.new()
    long.tell("word " * 100)
    title = str(long.meta()["title"])
    assert len(title) <= 100 and title.endswith("…")


def test_a_session_with_a_name_needs_no_title(live: Live) -> None:
    session = live.new(args=("--name", "mine"))
    session.tell("hello")
    assert titles(session) == ("mine", None)


def test_a_secret_in_the_first_prompt_does_not_become_a_title(live: Live) -> None:
    session = live.new()
    session.tell("why does password=hunter22secret not work?")
    assert "hunter22secret" not in str(session.meta()["title"])
    assert str(session.meta()["title"]).startswith("why does password=")


def test_a_run_is_titled(live: Live) -> None:
    live.agh("run", "--agent", "echo", "what is this?")
    (session,) = live.sessions()
    assert titles(session) == (None, "what is this?")
