"""The picker for a command that names no session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import Home, conversation
from tests.support.live import Live
from tests.support.screen import open_screen


@pytest.fixture
def two(home: Home, live: Live) -> Live:
    for number, name in enumerate(("elsewhere", "fix-login")):
        path = str(live.workspace) if name == "fix-login" else "/nowhere"
        home.session(
            conversation(), name=name, workspace_path=path, updated_at=f"2099-01-01T00:00:0{number}.000Z"
        )
    return live


@pytest.mark.parametrize("columns", [40, 80])
def test_arrows_pick_a_session(two: Live, columns: int) -> None:
    with open_screen(two, "session", "status", columns=columns) as screen:
        screen.shows("agh session status: which session?", "Enter picks")
        assert screen.selected().startswith("fix-login"), "a session of this workspace"
        screen.type("\x1b[B")
        screen.awaits(lambda: screen.selected().startswith("elsewhere"))
        screen.type("\r")
        assert screen.ends() == 0
    assert b"/nowhere" in screen.raw


def test_typing_filters(two: Live) -> None:
    with open_screen(two, "transcript", "-o", "text") as screen:
        screen.shows("agh transcript: which session?")
        screen.type("elsex\x7fw")
        screen.hides("fix-login")
        screen.type("\r")
        assert screen.ends() == 0
    assert b"Explain the stop path." in screen.raw


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("stop",), "stopped"),
        (("events", "--last", "1"), "done"),
        (("resume", "--attach-only"), "you cannot attach to it"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_that_can_do_without_a_session_let_one_pick(
    two: Live, args: tuple[str, ...], shown: str
) -> None:
    with open_screen(two, *args) as screen:
        screen.shows(f"agh {args[0]}: which session?")
        screen.type("\r")
        screen.ends()
        assert shown in screen.text


def test_giving_up_does_nothing(two: Live) -> None:
    with open_screen(two, "attach") as screen:
        screen.shows("agh attach: which session?")
        screen.type("\x1b")
        assert screen.ends() == 130


def test_without_sessions_the_error_is_as_before(live: Live) -> None:
    with open_screen(live, "attach") as screen:
        assert screen.ends() == 2
        assert "attach needs a session, and there is none here yet" in screen.text


@pytest.mark.parametrize("args", [("attach",), ("stop",), ("resume",), ("events",), ("status", "-o", "json")])
def test_a_script_gets_the_error(two: Live, args: tuple[str, ...], tmp_path: Path) -> None:
    assert "needs a session" in two.agh(*args, code=2).stderr


def test_json_is_never_picked_for(two: Live) -> None:
    with open_screen(two, "status", "-o", "json") as screen:
        assert screen.ends() == 2
        assert "needs a session" in screen.text
