from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import Home, says, user
from tests.support.program import Agh
from tests.support.screens import agh_on_screen, print_on_screen

LONG = "\n\n".join(f"paragraph {number}" for number in range(60))


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """Return a pager that notes how it was started and prints what it gets behind a mark."""
    path = tmp_path / "my pager"
    path.write_text(f'#!/bin/sh\necho "$LESS" > "{tmp_path}/less"\nsed "s/^/| /"\n')
    path.chmod(0o755)
    return path


def test_a_long_transcript_goes_to_the_pager(home: Home, pager: Path) -> None:
    name = home.session([user("Write."), says(LONG)]).name
    screen = print_on_screen("session", "transcript", name, rows=500, PAGER=f"'{pager}'")
    assert screen.lines[0] == "> Write."  # it fits
    screen = print_on_screen("session", "transcript", name, PAGER=f"'{pager}'")
    assert screen.printed.startswith("| > Write.\n| \n| paragraph 0\n")
    assert "| paragraph 59\n" in screen.printed
    assert (pager.parent / "less").read_text() == "FRX\n"
    screen = print_on_screen("session", "transcript", name, PAGER=f"'{pager}'", LESS="R")
    assert (pager.parent / "less").read_text() == "R\n"


@pytest.mark.parametrize("value", ["", "cat", "no-such-pager"])
def test_without_a_pager_it_is_printed(home: Home, value: str) -> None:
    name = home.session([says(LONG)]).name
    assert "paragraph 59" in print_on_screen("session", "transcript", name, PAGER=value).printed


def test_nobody_is_asked_twice(home: Home, pager: Path, agh: Agh) -> None:
    name = home.session([says(LONG)]).name
    screen = print_on_screen("session", "transcript", name, "--no-pager", PAGER=f"'{pager}'")
    assert screen.printed.startswith("paragraph 0\n")
    screen = print_on_screen("session", "transcript", name, "-o", "text", PAGER=f"'{pager}'")
    assert screen.printed.startswith("assistant: paragraph 0\n")
    assert agh("session", "transcript", name, by_exec=True).stdout.startswith("assistant: paragraph 0\n")


def test_leaving_the_pager_early_is_no_failure(home: Home) -> None:
    name = home.session([says(LONG * 20)]).name
    screen = print_on_screen("session", "transcript", name, PAGER="head -n 1")
    assert screen.printed == "paragraph 0\n"


def test_less_is_the_pager_and_ctrl_c_is_its_own(home: Home) -> None:
    name = home.session([says(LONG)]).name
    with agh_on_screen("session", "transcript", name) as screen:
        screen.shows("paragraph 10")
        screen.type("\x03")

        def has_gone_to_the_end() -> bool:
            screen.type("G")  # again and again: it drops what comes with Ctrl-C
            return "paragraph 59" in screen.text

        screen.waits(has_gone_to_the_end, "the last page")
        screen.type("q")
        assert screen.ends() == 0
