"""A start that takes longer than half a second says so on a terminal, and leaves no trace of it."""

from __future__ import annotations

import pytest

from tests.support.live import Live, Session
from tests.support.terminal import leave, open_terminal

SLOW = {"AGH_ECHO_OPTIONS": "--init-delay 1.5"}
XTERM = {"TERM": "xterm-256color"}
ERASE = "\r\x1b[K"


@pytest.mark.parametrize("words", [("session", "new"), ("run", "hello"), ("session", "ensure", "--name=a")])
def test_a_new_session(live: Live, words: tuple[str, ...]) -> None:
    with open_terminal(live, *words, "--agent", "echo", **SLOW, **XTERM) as terminal:
        terminal.shows("⠋ starting echo… ")
        assert terminal.ends() == 0
    *_, last_frame = terminal.printed.split(" starting echo… ")
    assert last_frame.split(" s", 1)[1].startswith(ERASE), "it is erased"


@pytest.mark.parametrize("words", [("prompt", "hello"), ("resume",), ("attach",), ("fork",)])
def test_a_stopped_session(talked: Session, words: tuple[str, ...]) -> None:
    with open_terminal(talked.live, "session", words[0], talked.id, *words[1:], **SLOW, **XTERM) as terminal:
        terminal.shows(" starting echo… ")
        if words == ("attach",):
            leave(terminal)
        assert terminal.ends() == 0


def test_a_terminal_that_cannot_erase_gets_a_line(live: Live) -> None:
    with open_terminal(live, "run", "--agent", "echo", "hello", **SLOW) as terminal:
        assert terminal.ends() == 0
    assert terminal.printed.count("starting echo…\r\n") == 1
    assert "\x1b" not in terminal.printed


def test_not_in_a_pipe(live: Live) -> None:
    result = live.agh("run", "--agent", "echo", "hello", "-o", "text", env=SLOW)
    assert (result.stdout, result.stderr) == ("echo: hello\n", "")
