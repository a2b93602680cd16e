"""The list of sessions on terminals of every width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agh.console.terminal import display_width
from tests.support.build import Home, take_lock
from tests.support.terminal import run_on_terminal

STYLE = re.compile(r"\x1b\[\d*m")
LONG = "a name that is much longer than any column for names should be"
SESSIONS: dict[str, dict[str, Any]] = {
    "sess-aaaa000001": {"name": "fix-login", "model": "large", "last_message": "I have mended it. " * 9},
    "sess-aaaa000002": {"name": LONG, "spent": {"cost_amount": 1.25, "cost_currency": "USD"}},
    "sess-bbbb000003": {"title": "日本語のとても長いタイトル" * 4, "last_message": "はい" * 60},
    "sess-bbbb000004": {
        "name": "asks",
        "state": "active",
        "activity": {"turn_id": "t", "pending_permissions": 1, "question": "edit: src/login.py"},
    },
}


@pytest.fixture
def listed(home: Home) -> Iterator[Home]:
    with ExitStack() as stack:
        for number, (session_id, fields) in enumerate(SESSIONS.items()):
            directory = home.directory(
                id=session_id,
                updated_at=f"2099-01-01T00:00:{30 - number:02}.000Z",
                workspace_path=str(Path.home() / "project"),
                **fields,
            )
            if fields.get("state") == "active":
                stack.enter_context(take_lock(directory))
        yield home


def lines(width: int, **env: str) -> list[str]:
    code, printed = run_on_terminal("ls", "--all", env={"COLUMNS": str(width), **env})
    assert code == 0
    return printed.replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("width", [40, 41, 50, 60, 79, 80, 100, 119, 120, 160, 200])
def test_nothing_is_wider_than_the_terminal(listed: Home, width: int) -> None:
    shown = [STYLE.sub("", line) for line in lines(width)]
    assert len(shown) == 1 + len(SESSIONS)
    assert max(map(display_width, shown)) <= width
    assert shown[0].split()[0] == "NAME"
    assert "STATUS" in shown[0]
    assert "fix-login" in "\n".join(shown)


def test_what_a_wide_terminal_shows(listed: Home) -> None:
    header, first, *_ = (STYLE.sub("", line) for line in lines(200))
    assert re.split(r"  +", header) == [
        *("NAME", "ID", "STATUS", "AGENT", "MODEL", "COST", "ACTIVE", "LAST MESSAGE", "DIRECTORY")
    ]
    assert first.split()[:2] == ["asks", "bbbb000004"]
    assert "edit: src/login.py" in first
    assert first.endswith("~/project")


def test_paths_in_the_workspace_are_short(home: Home) -> None:
    activity = {
        "turn_id": "t",
        "pending_permissions": 1,
        "question": "edit: /work/app/src/login.py, /work/other",
    }
    directory = home.directory(
        name="asks",
        state="active",
        workspace_path="/work/app",
        updated_at="2099-01-01T00:00:00.000Z",
        activity=activity,
    )
    with take_lock(directory):
        assert "edit: src/login.py, /work/other" in lines(120)[1]


def test_what_needs_you_is_on_top_and_coloured(listed: Home) -> None:
    shown = lines(100)
    assert shown[1].startswith("asks ")
    assert "\x1b[33mwaiting-for-input\x1b[0m" in shown[1]
    assert [line.split()[0] for line in shown[2:]][:1] == ["fix-login"]
    assert not STYLE.search("".join(lines(100, NO_COLOR="1")))


def test_a_short_id_names_one_session(listed: Home) -> None:
    ids = [re.split(r"  +", STYLE.sub("", line))[1] for line in lines(100)[1:]]
    assert sorted(ids) == ["aaaa000001", "aaaa000002", "bbbb000003", "bbbb000004"]
    for session_id in ids:
        code, printed = run_on_terminal("session", "status", session_id)
        assert (code, f"sess-{session_id}" in printed) == (0, True)
