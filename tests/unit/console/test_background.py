from __future__ import annotations

import pytest

from tests.support.build import Home, returns, says
from tests.support.screens import agh_on_screen, print_on_screen

ADDED = {"dark": "38;5;114", "light": "38;5;28", None: "32"}
PATCH = {"path": "cart.py", "oldText": "", "newText": "new line"}


@pytest.fixture
def name(home: Home) -> str:
    edit = returns("c1", title="Edit", tool_result={"structured_patch": [PATCH]})
    return home.session([edit, says("done")]).name


@pytest.mark.parametrize("background", ["dark", "light", None])
def test_the_terminal_is_asked(name: str, background: str | None) -> None:
    screen = print_on_screen("session", "transcript", name, background=background)
    assert f"\x1b[{ADDED[background]}m  +new line".encode() in screen.raw
    assert "done" in screen.lines
    assert "rgb" not in screen.text


def test_it_is_not_asked_if_it_is_known(home: Home, name: str) -> None:
    for variables in ({"COLORFGBG": "0;15"}, {"NO_COLOR": "1"}):
        screen = print_on_screen("session", "transcript", name, background="dark", **variables)
        assert b"]11;?" not in screen.raw
        assert (ADDED["light"].encode() in screen.raw) == ("COLORFGBG" in variables)
    (home.path / "config.toml").write_text('[ui]\ntheme = "light"\n')
    screen = print_on_screen("session", "transcript", name, background="dark")
    assert b"]11;?" not in screen.raw
    assert ADDED["light"].encode() in screen.raw
    (home.path / "config.toml").write_text('[ui]\ntheme = "none"\n')
    assert b"\x1b" not in print_on_screen("session", "transcript", name).raw


@pytest.mark.parametrize("command", ["list", "status", "history"])
def test_commands_that_only_print_ask_nothing(name: str, command: str) -> None:
    args = [name] if command != "list" else ["--all"]
    assert b"]11;?" not in print_on_screen("session", command, *args, background="dark").raw


def test_a_terminal_that_says_nothing_costs_little_and_keys_are_left_alone(name: str) -> None:
    with agh_on_screen("session", "transcript", name) as screen:
        screen.type("typed ahead\n")
        assert screen.ends() == 0
    assert "done" in screen.text
