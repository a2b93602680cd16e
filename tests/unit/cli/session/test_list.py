from __future__ import annotations

import json
import re
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import timestamp
from tests.support.build import Home, conversation, take_lock
from tests.support.output import error_of, message_of
from tests.support.program import Agh

FIRST_COMMAND = "no sessions yet; start one with: agh run 'what does this project do?'\n"


def ago(**span: float) -> str:
    return timestamp(datetime.now(UTC) - timedelta(**span))


def ids(agh: Agh, *args: object) -> list[str]:
    return [
        session["id"]
        for session in json.loads(agh("session", "list", "-o", "json", *args).stdout)["sessions"]
    ]


def test_no_home_at_all_is_an_empty_list_and_makes_none(agh: Agh, home: Home) -> None:
    assert json.loads(agh("session", "list", "-o", "json").stdout) == {"sessions": []}
    assert agh("session", "list", "-o", "jsonl").stdout == ""
    result = agh("session", "list")
    assert result.stdout == ""
    assert result.stderr == FIRST_COMMAND
    assert agh("ls", "--all").stderr == FIRST_COMMAND
    assert not home.path.exists()
    home.directory(updated_at=ago(days=30))
    assert agh("ls").stderr == "no recent sessions; see older ones with --all\n"
    assert agh("ls", "--all", "--badge", "failed").stderr == "no sessions\n"
    assert agh("ls", "-o", "json", "--badge", "failed").stderr == ""


@pytest.mark.parametrize(
    ("option", "value", "valid"),
    [("--state", "runing", "starting"), ("--badge", "runing", "running"), ("--badge", "active", "idle")],
)
def test_a_state_or_badge_that_does_not_exist_is_refused(
    agh: Agh, home: Home, option: str, value: str, valid: str
) -> None:
    result = agh("ls", option, value, code=2)
    assert f"'{value}' is not one of " in message_of(result)
    assert f"'{valid}'" in message_of(result)
    if value == "runing" and option == "--badge":
        assert result.stderr.endswith("hint: did you mean running?\n")


def test_newest_activity_first(agh: Agh, home: Home) -> None:
    for name, hours in (("older00000", 3), ("newest0000", 1), ("middle0000", 2)):
        home.directory(id=f"sess-{name}", updated_at=ago(hours=hours))
    assert ids(agh) == ["sess-newest0000", "sess-middle0000", "sess-older00000"]


def test_live_and_recent_by_default(agh: Agh, home: Home) -> None:
    home.directory(id="sess-recent0000", updated_at=ago(days=6))
    home.directory(id="sess-old0000000", updated_at=ago(days=8))
    home.directory(id="sess-archived00", updated_at=ago(hours=1), archived=True)
    live = home.directory(id="sess-live000000", updated_at=ago(days=30), state="active", stop_reason=None)
    home.directory(id="sess-vanished00", updated_at=ago(days=30), state="active", stop_reason=None)
    with take_lock(live):
        assert ids(agh) == ["sess-recent0000", "sess-live000000"]
        assert set(ids(agh, "--all")) == {
            "sess-recent0000",
            "sess-old0000000",
            "sess-archived00",
            "sess-live000000",
            "sess-vanished00",
        }


@pytest.fixture
def five(home: Home, tmp_path: Path) -> Home:
    place = tmp_path / "repo"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    home.directory(id="sess-a000000000", agent_name="claude", workspace_path=str(place))
    home.directory(id="sess-b000000000", agent_name="codex", stop_reason="error")
    home.directory(id="sess-c000000000", agent_name="codex", stop_reason="paused", workspace_id="other")
    home.directory(id="sess-d000000000", agent_name="claude", archived=True)
    home.directory(id="sess-e000000000", agent_name="claude", state="active", stop_reason=None)
    return home


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ([], "abcde"),
        (["--agent", "codex"], "bc"),
        (["--badge", "failed"], "be"),
        (["--badge", "paused"], "c"),
        (["--state", "stopped"], "abcde"),
        (["--state", "active"], ""),
        (["--workspace", "other"], "c"),
        (["--resumable"], ""),  # none of them has a log
        (["--agent", "claude", "--badge", "stopped"], "ad"),
        (["--agent", "nobody"], ""),
        (["--limit", "2"], "de"),
        (["--limit", "0"], ""),
    ],
)
def test_filters(agh: Agh, five: Home, args: list[str], wanted: str) -> None:
    assert sorted(ids(agh, "--all", *args)) == [f"sess-{letter}000000000" for letter in wanted]


@pytest.mark.parametrize("place", ["repo", "link", "repo/../repo/"])
def test_a_workspace_is_meant_however_its_path_is_written(
    agh: Agh, five: Home, tmp_path: Path, place: str
) -> None:
    assert ids(agh, "--all", "--workspace", tmp_path / place) == ["sess-a000000000"]
    assert json.loads(
        agh("session", "list", "--all", "-o", "json", "--workspace", place, cwd=tmp_path).stdout
    )["sessions"]


def test_a_damaged_session_is_listed_as_unknown_and_hides_nothing(agh: Agh, home: Home) -> None:
    home.directory(id="sess-good000000", updated_at=ago(hours=1), name="fine")
    broken = home.directory(id="sess-broken0000", updated_at=ago(hours=1))
    (broken / "meta.json").write_text('{"id": "sess-bro')
    by_id = {
        session["id"]: session
        for session in json.loads(agh("session", "list", "-o", "json").stdout)["sessions"]
    }
    assert by_id["sess-good000000"]["badge"] == "stopped"
    assert by_id["sess-broken0000"]["state"] == "unknown"
    assert by_id["sess-broken0000"]["badge"] == "unknown"
    assert by_id["sess-broken0000"]["attachable"] is False
    assert by_id["sess-broken0000"]["error"]["code"] == "meta_invalid"
    lines = agh("session", "list").stdout.splitlines()
    assert len(lines) == 3
    assert "meta.json cannot be read" in next(line for line in lines if "sess-broken0000" in line)


def test_what_is_not_a_session_is_not_listed(agh: Agh, home: Home) -> None:
    home.directory(id="sess-good000000")
    for stray in ("notes", "sess-SHOUTING", "sess-short", ".sess-hidden0000"):
        (home.path / "sessions" / stray).mkdir()
    assert ids(agh, "--all") == ["sess-good000000"]


def test_a_vanished_keeper_shows_at_once_and_reading_writes_nothing(agh: Agh, home: Home) -> None:
    directory = home.directory(state="active", stop_reason=None, updated_at=ago(hours=1))
    before = (directory / "meta.json").read_bytes()
    (session,) = json.loads(agh("session", "list", "-o", "json").stdout)["sessions"]
    assert (session["state"], session["stop_reason"], session["badge"]) == (
        "stopped",
        "agent_crashed",
        "failed",
    )
    assert (directory / "meta.json").read_bytes() == before


def test_forms(agh: Agh, home: Home) -> None:
    home.session(conversation(), id="sess-first00000", name="first", updated_at=ago(minutes=90))
    home.session(id="sess-second0000", title="A title", updated_at=ago(seconds=5))
    document = agh("session", "list", "-o", "json").stdout
    assert document.count("\n") == 1
    listed = json.loads(document)["sessions"]
    lines = agh("session", "list", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == listed
    human = agh("session", "list").stdout.splitlines()
    assert human[0].split() == ["NAME", "ID", "STATUS", "AGENT", "ACTIVE", "DIRECTORY"]
    assert human[1].startswith("A title  sess-second0000  stopped  general")
    assert human[2].split()[:5] == ["first", "sess-first00000", "stopped", "general", "1h"]
    assert "\x1b" not in "".join(human)


def test_a_listed_session_has_its_metadata_and_what_follows_from_it(agh: Agh, home: Home) -> None:
    home.directory(name="x", model="m", acp_session_id="token", updated_at=ago(hours=1))
    (session,) = json.loads(agh("session", "list", "-o", "json").stdout)["sessions"]
    derived = {"phase": "completed", "badge": "stopped", "attachable": False}
    assert {key: session[key] for key in derived} == derived
    assert (session["model"], session["acp_session_id"], session["workspace_id"]) == (
        "m",
        "token",
        "repo-alpha",
    )


@pytest.mark.parametrize(
    "args", [["--limit", "-1"], ["--limit", "many"], ["-o", "xml"], ["--nonsense"], ["stray"]]
)
def test_wrong_usage(agh: Agh, args: list[str]) -> None:
    message_of(agh("session", "list", *args, code=2))


def test_wrong_usage_as_json(agh: Agh) -> None:
    error = error_of(agh("session", "list", "-o", "json", "--limit", "-1", code=None), "usage", 2)
    assert "limit" in error["message"]
    assert error["hint"] == "agh session list --help"


WRONG_TYPES: dict[str, Any] = {
    "activity": ["a list"],
    "attach": "someone",
    "failure": "it broke",
    "updated_at": 20260416,
    "name": {"first": "x"},
    "agent_name": 7,
    "workspace_path": 7,
    "stop_reason": ["error"],
    "archived": "yes",
}


def test_a_time_without_a_zone_hides_nothing(agh: Agh, home: Home) -> None:
    home.directory(id="sess-good000000", updated_at=ago(hours=1))
    home.directory(id="sess-odd0000000", updated_at="2026-04-16T01:00:00")
    assert agh("session", "list", "--all").stdout.count("sess-") == 2


@pytest.mark.parametrize("output", ["human", "json"])
def test_metadata_of_the_wrong_shape_hides_nothing(agh: Agh, home: Home, output: str) -> None:
    home.directory(id="sess-good000000", updated_at=ago(hours=1))
    with ExitStack() as live:
        for number, (field, value) in enumerate(WRONG_TYPES.items()):
            home.directory(**{"id": f"sess-stopped{number}00", field: value})
            active = home.directory(**{"id": f"sess-active{number}000", "state": "active", field: value})
            live.enter_context(take_lock(active))
        result = agh("session", "list", "--all", "-o", output)
    pattern = r'"id":"(sess-\w+)"' if output == "json" else r"(sess-\w+)  "
    listed = re.findall(pattern, result.stdout)
    assert len(listed) == len(set(listed)) == 1 + 2 * len(WRONG_TYPES)
    assert "sess-good000000" in listed


@pytest.mark.parametrize(
    "kind", ["directory", *(pytest.param(one) for one in ("symlink", "unreadable link"))]
)
def test_a_strange_lock_file_hides_nothing(agh: Agh, home: Home, tmp_path: Path, kind: str) -> None:
    home.directory(id="sess-good000000", updated_at=ago(hours=1))
    lock = home.directory(id="sess-odd0000000", state="active", updated_at=ago(hours=1)) / "lock"
    if kind == "directory":
        lock.mkdir()
    else:
        lock.symlink_to(tmp_path / "elsewhere" if kind == "symlink" else lock)
    result = agh("session", "list")
    assert "sess-good000000" in result.stdout
    assert "sess-odd0000000" in result.stdout
    assert not (tmp_path / "elsewhere").exists()
