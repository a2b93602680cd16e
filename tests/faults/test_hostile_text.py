"""Agent text cannot drive a terminal: whatever is stored, no command in no form lets it through raw."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agh.core.events import TYPES
from tests.support.build import Home, Writer, draft, shared_home, take_lock
from tests.support.files import tree
from tests.support.output import OWN_STYLES, UNSAFE
from tests.support.terminal import run_on_terminal, show_on_terminal

HOSTILE = (
    "\x1b]52;c;aGk=\x07 \x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x1b[2J\x1b[5mblink \x1bPq \x9b31m "
    "\x9d0;t\x9c \u202edrawkcab\u202c \u2066x\u2069 \u200bz\ufeff \U000e0041 [bold red]markup[/] \x08\x7f "
    "\roverwritten \x00 \u2028"
)
FIELDS = """
request_id text title tool_name tool_call_id stop_reason action resource decision error kind severity summary
occurred_at outcome strategy attached_to message_id marker_id
"""
DEEP = ("tool_input", "failure", "usage", "runtime", "raw", "diagnostic")
META = """
name title agent_name model mode workspace_id workspace_path stop_reason stop_detail acp_session_id
permissions created_at updated_at
"""
NAME = "hostile"


def content() -> dict[str, Any]:
    result = dict.fromkeys(
        ("stdout", "stderr", "file_path", "content", "structured_patch", "error", "raw_output"), HOSTILE
    )
    return {
        **dict.fromkeys(FIELDS.split(), HOSTILE),
        **{field: {HOSTILE: HOSTILE, "list": [HOSTILE]} for field in DEEP},
        "tool_result": result,
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    with shared_home(tmp_path_factory) as home:
        metadata: dict[str, Any] = {
            **dict.fromkeys(META.split(), HOSTILE),
            "failure": {"kind": HOSTILE, "summary": HOSTILE},
            "attach": {"attached_to": HOSTILE, "attach_expires_at": HOSTILE},
        }
        home.session(id="sess-meta000000", **metadata)
        home.session(id="sess-state00000", state=HOSTILE)
        home.session(id="sess-named00000", name=HOSTILE + "x", title=None)
        directory = home.session(id="sess-hostile000", **{**metadata, "name": NAME})
        column = HOSTILE.replace("\x00", "")
        with take_lock(directory) as owner, Writer(owner, column) as log:
            log.append(draft(kind, turn_id=f"t{column}", **content()) for kind in TYPES)
        crashed = home.session(id="sess-crashed000", state="active", stop_reason=None)
        with take_lock(crashed) as owner, Writer(owner, column) as log:
            log.append(
                draft(kind, turn_id=f"t{column}", **content()) for kind in ("user_message", "tool_call")
            )
    return home


@pytest.fixture(autouse=True)
def in_shared(shared: Home, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(shared.path))


def assert_safe(shown: str) -> None:
    left = OWN_STYLES.sub("", shown)
    match = UNSAFE.search(left)
    assert match is None, ascii(left[max(0, match.start() - 100) : match.end() + 20])


COMMANDS = [
    *(["session", "list", "--all", "-o", output] for output in ("human", "json", "jsonl")),
    *(
        ["session", "status", f"sess-{name}", "-o", output]
        for name in ("meta", "state", "hostile")
        for output in ("human", "json", "jsonl")
    ),
    *(["session", "events", NAME, "-o", output] for output in ("human", "json", "jsonl", "sse")),
    ["session", "events", NAME],
    ["session", "events", "--all"],
    *(["session", "events", NAME, "--follow", "-o", output] for output in ("human", "jsonl", "sse")),
    ["session", "events", "sess-meta", "--follow"],
    *(["session", "history", NAME, "-o", output] for output in ("human", "json", "jsonl")),
    *(
        ["session", "transcript", NAME, "-o", output]
        for output in ("human", "text", "markdown", "html", "json", "jsonl")
    ),
    *(["session", "recap", NAME, "-o", output] for output in ("human", "json")),
    *(["session", "repair", "--all", "--dry-run", "-o", output] for output in ("human", "json", "jsonl")),
    *(["doctor", "-o", output] for output in ("human", "json")),
]


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_stored_text(args: list[str]) -> None:
    code, printed = show_on_terminal(*args)
    assert code == 0, ascii(printed)
    assert printed
    assert_safe(printed)


@pytest.mark.parametrize("output", ["human", "json"])
def test_the_program_shows_the_same(output: str) -> None:
    for verb in ("events", "transcript"):
        args = ["session", verb, NAME, "-o", output]
        assert run_on_terminal(*args) == show_on_terminal(*args)


@pytest.mark.parametrize("args", [args for args in COMMANDS if args[-1] == "human"], ids=" ".join)
def test_stored_text_without_colour(args: list[str]) -> None:
    code, printed = show_on_terminal(*args, env={"NO_COLOR": "1"})
    assert code == 0
    assert "\x1b" not in printed
    assert_safe(printed)


@pytest.mark.parametrize("output", ["human", "markdown"])
def test_markup_is_only_text(output: str) -> None:
    code, printed = show_on_terminal("session", "transcript", NAME, "-o", output)
    assert code == 0
    assert "[bold red]markup[/]" in printed


@pytest.mark.parametrize("output", ["human", "json"])
@pytest.mark.parametrize(
    "args",
    [
        ["session", "status", "{}"],
        ["session", "events", NAME, "--since", "{}"],
        ["session", "events", NAME, "--where", "{}"],
        ["session", "events", NAME, "--where", '"{}"."x"'],
        ["session", "events", NAME, "--after", "{}"],
        ["session", "events", NAME, "--type", "{}"],
        ["session", "events", NAME, "--last", "{}"],
        ["session", "list", "--{}"],
        ["session", "list", "{}"],
        ["session", "recap", NAME, "--at", "{}"],
        ["session", "{}"],
        ["{}"],
    ],
    ids=" ".join,
)
def test_arguments_in_errors(args: list[str], output: str) -> None:
    arguments = [part.replace("{}", HOSTILE.replace("\x00", "")) for part in args]
    code, printed = show_on_terminal(*arguments, "-o", output)
    assert code in (2, 4), ascii(printed)
    assert_safe(printed)


def test_the_path_of_the_home_in_errors(tmp_path: Path) -> None:
    for name in ("a\x1b[2Jb", "c\u202ed"):
        place = tmp_path / name
        place.mkdir()
        place.chmod(0o777)
        for output in ("human", "json"):
            code, printed = show_on_terminal("session", "list", "-o", output, env={"AGH_HOME": str(place)})
            assert code == 5
            assert_safe(printed)


@pytest.mark.parametrize("output", [pytest.param("human"), "jsonl", "sse"])
@pytest.mark.parametrize("column", ["type", "timestamp"])
def test_columns_that_no_keeper_would_write(
    home: Home, monkeypatch: pytest.MonkeyPatch, column: str, output: str
) -> None:
    """An imported or tampered log may hold anything in any column."""
    monkeypatch.setenv("AGH_HOME", str(home.path))
    directory = home.session()
    row = {
        "turn_id": "t",
        "type": "system",
        "agent_name": "a",
        "content": "{}",
        "timestamp": "2026-04-16T01:00:00.000Z",
    }
    row[column] = "\x1b]52;;x\x07\x1b[2J\x9b31m\u202e"
    if column == "timestamp":
        row[column] = "2026-04-16T" + row[column]
    with take_lock(directory), sqlite3.connect(directory / "events.db") as log:
        log.execute(
            f"INSERT INTO events (sequence, {', '.join(row)}) VALUES (1, ?, ?, ?, ?, ?)", [*row.values()]
        )
    log.close()
    before = tree(directory)
    code, printed = show_on_terminal("session", "events", directory.name, "-o", output)
    assert code == 0
    assert_safe(printed)
    assert tree(directory) == before
