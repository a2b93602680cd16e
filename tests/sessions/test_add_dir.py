"""`--add-dir`: directories that count as inside, like the workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Live, Session
from tests.support.resume import define

WITHOUT = "load,resume"


def given(session: Session) -> Any:
    return json.loads(session.say("/given").removeprefix("given: "))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "library"
    path.mkdir()
    (path / "a.txt").write_text("from the library\n")
    return path


def test_the_agent_is_told_at_every_start(live: Live, library: Path) -> None:
    session = live.new(args=("--add-dir", library, "--add-dir", library))
    assert given(session) == {"additionalDirectories": [str(library)]}
    session.stop()
    assert given(session) == {"additionalDirectories": [str(library)]}
    copy = live.session(session.agh("fork").stdout.strip())
    assert given(copy) == {"additionalDirectories": [str(library)]}
    assert f"also in:      {library}\n" in session.agh("status", "-o", "human").stdout


def test_it_counts_as_inside(live: Live, library: Path) -> None:
    session = live.new(args=("--permissions", "approve-all", "--add-dir", library))
    steps = [
        f"/ask kind=edit path={library}/a.txt",
        f"/read {library}/a.txt",
        f"/write {library}/b.txt new",
        f"/ask kind=edit path={library}/../elsewhere.txt",
        f"/ask kind=edit path={library}/.agh/config.toml",
        f"/write {library.parent}/c.txt no",
    ]
    session.prompt("\n".join(steps), "--no-ask", code=None)
    assert (library / "b.txt").read_text() == "new"
    assert not (library.parent / "c.txt").exists()
    decisions = session.fetch("SELECT decision, decided_by FROM permissions ORDER BY rowid")
    assert [decision for decision, _ in decisions] == ["allowed", "allowed", "allowed", "denied", "denied"]
    assert [by for _, by in decisions[:3]] == ["mode"] * 3


def test_without_it_the_same_is_outside(live: Live, library: Path) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    assert "outside the workspace" in session.tell(f"/write {library}/b.txt new")
    assert not (library / "b.txt").exists()


def test_a_link_out_of_it_is_outside(live: Live, library: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    (library / "link").symlink_to(tmp_path / "secret")
    session = live.new(args=("--permissions", "approve-all", "--add-dir", library))
    assert "outside the workspace" in session.tell(f"/read {library}/link")


def test_an_agent_that_takes_none_is_said_and_may_still_work_there(live: Live, library: Path) -> None:
    define(live, "mine", "--caps", WITHOUT)
    result = live.agh(
        "session", "new", "--agent", "mine", "--permissions", "approve-all", "--add-dir", library
    )
    assert "mine cannot use" in result.stderr
    session = live.session(result.stdout.strip())
    assert given(session) == {}
    session.tell(f"/write {library}/b.txt new")
    assert (library / "b.txt").read_text() == "new"


@pytest.mark.parametrize("directory", ["", "no-such", "file", "../agh/sessions"])
def test_what_is_no_directory_is_refused_and_leaves_nothing(live: Live, directory: str) -> None:
    (live.workspace / "file").write_text("")
    result = live.agh("session", "new", "--agent", "echo", "--add-dir", directory, "-o", "json", code=2)
    assert "--add-dir" in json.loads(result.stderr)["error"]["message"]
    assert live.sessions() == []


def test_in_another_place_it_is_refused(live: Live, library: Path) -> None:
    args = ("--agent", "echo", "--on", "docker:run:image", "--add-dir", library)
    result = live.agh("session", "new", *args, "-o", "json", code=2)
    assert "sees only its workspace" in json.loads(result.stderr)["error"]["message"]
    assert live.sessions() == []
