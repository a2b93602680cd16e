"""`agh session search`, as the installed program."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.build import Home, conversation, says, user
from tests.support.imports import HEAVY, below, imported
from tests.support.output import OWN_STYLES, UNSAFE, message_of
from tests.support.program import Agh
from tests.support.terminal import run_on_terminal


def test_results_name_session_turn_and_event(home: Home, agh: Agh) -> None:
    session = home.session(conversation(), name="stop-path")
    (match,) = json.loads(agh("session", "search", "MARKS", "--all-workspaces", "-o", "json").stdout)[
        "matches"
    ]
    start, end = match.pop("highlights")[0]
    assert match["snippet"][start:end] == "marks"
    assert match.pop("timestamp")[-1] == "Z"
    assert match == {
        "session_id": session.name,
        "name": "stop-path",
        "title": None,
        "agent_name": "general",
        "workspace_path": "/absolute/path/to/repo",
        "turn_id": "turn-1",
        "sequence": 7,
        "role": "assistant",
        "snippet": "AGH first marks the session stopping...",
    }


def test_for_people(home: Home, agh: Agh) -> None:
    session = home.session(conversation(), name="stop-path")
    lines = agh("session", "search", "marks the", "--all-workspaces").stdout.splitlines()
    assert lines[0].startswith(f"{session.name} 7 assistant 20") and lines[0].endswith(" stop-path")
    assert lines[1] == "    AGH first «marks the» session stopping..."


def test_this_directory_unless_told_otherwise(home: Home, agh: Agh, tmp_path: Path) -> None:
    here = tmp_path / "repo" / "deep"
    here.mkdir(parents=True)
    mine = home.session([user("apple")], workspace_path=str(tmp_path / "repo"))
    home.session([user("apple")], workspace_path=str(tmp_path / "elsewhere"))

    def ids(*args: str) -> list[str]:
        result = agh("session", "search", "apple", "-o", "jsonl", *args, cwd=here, code=None)
        assert result.returncode == (0 if result.stdout else 1)
        return [json.loads(line)["session_id"] for line in result.stdout.splitlines()]

    assert ids() == [mine.name]
    assert len(ids("--all-workspaces")) == 2
    assert len(ids("--all-workspaces", "--limit", "1")) == 1
    assert ids("--role", "assistant") == ids("--since", "2100-01-01T00:00:00Z") == []
    done = agh("session", "search", "pear", cwd=here, code=1)
    assert done.stdout == ""
    assert message_of(done) == "no matches in the sessions of this directory"
    assert done.stderr.endswith("hint: agh session search --all-workspaces pear\n")
    everywhere = agh("search", "pear", "--all-workspaces", code=1)
    assert message_of(everywhere) == "no matches"
    as_json = agh("search", "pear", "-o", "json", code=1)
    assert json.loads(as_json.stdout) == {"matches": []}
    assert json.loads(as_json.stderr)["error"]["code"] == "nothing_found"


def test_nothing_to_look_for(home: Home, agh: Agh) -> None:
    assert "at least one letter or digit" in agh("session", "search", "**", code=2).stderr
    agh("session", "search", code=2)
    assert agh("session", "search", "apple", code=1).stdout == ""


def test_damaged_sessions_are_told(home: Home, agh: Agh) -> None:
    home.session([user("apple")])
    (home.session([user("apple")]) / "events.db").write_bytes(b"x" * 200)
    result = agh("session", "search", "apple", "--all-workspaces", "-o", "jsonl", code=8)
    assert len(result.stdout.splitlines()) == 1 and "left out" in result.stderr


def test_agent_text_cannot_drive_the_terminal(home: Home) -> None:
    home.session(
        [user("go"), says("apple \x1b]0;owned\x07 \u202e \x02 \x03 \x9b31m apple")], name="x\x1b[31m"
    )
    _, printed = run_on_terminal("session", "search", "apple", "--all-workspaces")
    assert "apple" in printed
    assert not UNSAFE.search(OWN_STYLES.sub("", printed))
    assert "\x1b[1;33mapple\x1b[0m" in printed


def test_with_no_environment_to_speak_of(home: Home, agh: Agh, tmp_path: Path) -> None:
    home.session([user("apple")])
    env = {"AGH_HOME": os.environ["AGH_HOME"], "HOME": os.environ["HOME"], "PATH": "/bin"}
    result = agh("session", "search", "apple", "--all-workspaces", "-o", "jsonl", env=env, cwd="/")
    assert len(result.stdout.splitlines()) == 1


def test_a_search_with_a_fresh_index_imports_nothing_heavy(home: Home) -> None:
    directory = home.session(conversation())
    os.utime(directory / "events.db", (1, 1))
    assert "sqlite_utils" in imported("session", "search", "path", "--all-workspaces")
    modules = imported("session", "search", "path", "--all-workspaces")
    assert "agh.store.search.index" in modules
    heavy = [name for name in sorted(modules) if below(name, HEAVY)]
    assert {name.partition(".")[0] for name in heavy} == {"platformdirs"}, "it says where the cache is"
