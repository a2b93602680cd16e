"""A question on the terminal of the one who follows: field by field, choices by number."""

from __future__ import annotations

from pathlib import Path

from tests.sessions.test_questions import COLOUR, FORM, SIZE
from tests.support.live import Live, Session
from tests.support.questions import form, outcomes, pending
from tests.support.terminal import open_terminal


def test_field_by_field(shared: Session) -> None:
    with open_terminal(shared.live, "session", "prompt", shared.id, FORM) as terminal:
        terminal.shows("colour:")
        assert "How shall it look?" in terminal.printed
        assert "2. b: Blue" in terminal.printed
        terminal.type("7\n")
        terminal.shows("is not one of r, b")
        terminal.type("2\n")
        terminal.shows("size:")
        terminal.type("\n")
        terminal.shows("an answer is required")
        terminal.type("4\n")
        terminal.shows("sure:")
        terminal.type("y\n")
        terminal.shows("tags:")
        terminal.type("\n")
        assert terminal.ends() == 0
    assert 'form: accept {"colour": "b", "size": 4, "sure": true}' in terminal.printed
    assert outcomes(shared)[-1] == ("accepted", "terminal")


def test_declined_in_the_middle(shared: Session) -> None:
    two = form("Two?", ("a", "b"), a=COLOUR, b=SIZE)
    with open_terminal(shared.live, "session", "prompt", shared.id, two) as terminal:
        terminal.shows("a:")
        terminal.type("1\n")
        terminal.shows("b:")
        terminal.type("/decline\n")
        assert terminal.ends() == 0
    assert "form: decline {}" in terminal.printed
    assert outcomes(shared)[-1] == ("declined", "terminal")


def test_answered_elsewhere_meanwhile(shared: Session) -> None:
    with open_terminal(shared.live, "session", "prompt", shared.id, FORM, TERM="xterm") as terminal:
        terminal.shows("colour:")
        shared.agh("answer", "colour=r", "size=3")
        assert terminal.ends() == 0
    assert "answered elsewhere" in terminal.printed
    assert "stays open" not in terminal.printed
    assert outcomes(shared)[-1] == ("accepted", "user")


def test_left_for_later_and_answered_by_attaching(shared: Session) -> None:
    with open_terminal(shared.live, "session", "prompt", shared.id, "/elicit Which?") as terminal:
        terminal.shows("answer:")
        terminal.type("/later\n")
        terminal.shows("the question stays open")
        terminal.process.kill()
        terminal.ends()
    pending(shared)
    with open_terminal(shared.live, "session", "attach", shared.id, TERM="xterm") as terminal:
        terminal.shows("answer:", 20)
        terminal.type("this one\n")
        terminal.shows('elicit: accept {"answer": "this one"}')
    assert outcomes(shared)[-1] == ("accepted", "terminal")


def test_a_link_is_shown_and_opened_after_a_yes(shared: Session, tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    prompt = ("session", "prompt", shared.id, "/link https://example.org/x Log in.")
    with open_terminal(shared.live, *prompt, BROWSER=str(browser)) as terminal:
        terminal.shows("open it? [y]es, [n]o:")
        assert "link: https://example.org/x" in terminal.printed
        assert not opened.exists()
        terminal.type("y\n")
        assert terminal.ends() == 0
    assert "link: accept {}" in terminal.printed
    assert opened.read_text() == "https://example.org/x\n"


def test_the_command_asks_too(live: Live) -> None:
    session = live.new()
    session.send("/elicit Which?")
    pending(session)
    session.kill_keeper()
    with open_terminal(live, "session", "answer", session.id) as terminal:
        terminal.shows("answer:")
        terminal.type("that one\n")
        assert terminal.ends() == 0
    assert "sent as a prompt" in terminal.printed
    session.wait_idle()
    assert "- answer: that one" in session.text()
