from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import Home, draft, finishes, says, user
from tests.support.log_writer import LogWriter
from tests.support.program import Agh
from tests.support.screens import SIZES, agh_on_screen, print_on_screen, too_wide

TEXT = (
    "First line.\nA second one that is rather long, " + "so it has to be wrapped somewhere, " * 8 + "\n\nEnd."
)


@pytest.fixture
def name(home: Home) -> str:
    chunks = [says(TEXT[start : start + 5]) for start in range(0, len(TEXT), 5)]
    return home.session([user("Hi\nthere"), *chunks, finishes()], name="greet").name


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_chunks_are_joined_for_people(name: str, columns: int, rows: int) -> None:
    screen = print_on_screen("session", "events", name, "--follow", columns=columns, rows=200)
    assert too_wide(screen) == []
    words = " ".join(screen.text.split())
    assert words.count("agent_message") == 1
    assert " ".join(TEXT.split()) in words
    assert screen.lines[-1:] != ["First line."]
    heads = [line.split()[1] for line in screen.lines if line[:2].isdecimal()]
    assert heads == ["user_message", "agent_message", "done"]


def test_raw_rows_and_pipes_are_as_they_were(name: str, agh: Agh) -> None:
    screen = print_on_screen("session", "events", name, "--follow", "--raw", rows=300)
    assert screen.text.count("agent_message") == len(range(0, len(TEXT), 5))
    plain = print_on_screen("session", "events", name, rows=300)
    assert screen.text.startswith(plain.text)
    human = agh("session", "events", name, "--follow", "-o", "human").stdout
    assert human.count("agent_message") == screen.text.count("agent_message")
    assert agh("session", "events", name, "--follow").stdout.count("\n") == len(plain.text.split("\n")) + 1


def test_a_line_comes_when_it_is_complete(home: Home) -> None:
    directory = home.session(name="talk", state="active", stop_reason=None)
    with (
        LogWriter(directory) as log,
        agh_on_screen("session", "events", "talk", "--follow") as screen,
    ):
        log.append("one and ")
        log.append("two\nthree")
        screen.shows("agent_message  one and two")
        log.append(" and four")
        log.kill()
        screen.shows("three and four")
        assert screen.ends() == 0
    assert screen.text.count("agent_message") == 1


def test_all_sessions_have_their_names(home: Home, name: str) -> None:
    home.session([says("Me too.")], name="other-session-with-a-long-name")
    home.session([draft("error", error="broken", turn_id="turn-1")], id="sess-nameless000")
    with agh_on_screen("session", "events", "--all", "--follow", rows=60) as screen:
        for text in ("greet", "other-session-w…", "sess-nameless000", "broken", "Me too."):
            screen.shows(text)
    assert Path(name).name not in screen.text
