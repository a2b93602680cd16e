"""`agh session attach` on real terminals: who holds the session, and that joining loses nothing."""

from __future__ import annotations

import re
import signal

import pytest

from tests.support.live import Live, Session, Share
from tests.support.terminal import leave, open_terminal
from tests.support.wait import wait_until


def attach(live: Live, session: Session, *args: object, **env: str):  # type: ignore[no-untyped-def]
    return open_terminal(live, "session", "attach", session.id, *args, **env)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_lease_ends_with_the_terminal(shared_with: Share, number: signal.Signals) -> None:
    session = shared_with()
    with attach(session.live, session) as first:
        first.shows("> ")
        assert session.meta()["attach"]["attach_expires_at"] is None
        first.process.send_signal(number)
        first.process.wait(30)
        wait_until(lambda: session.meta()["attach"] is None)
        with attach(session.live, session) as second:
            second.shows("> ")
            leave(second)
    assert session.count("session_attached") == session.count("session_detached") == 2


def test_a_lease_for_a_time_runs_its_time(shared_with: Share) -> None:
    session = shared_with()
    with attach(session.live, session, "--ttl", "10m") as first:
        first.shows("> ")
        first.process.kill()
        first.process.wait(30)
        with attach(session.live, session) as second:
            assert second.ends() == 6
    assert re.search(r"is in use by another terminal \(pts/\d+, 10 min left\)\r\n", second.printed)
    assert f"agh session attach {session.id} --steal\r\n" in second.printed


def test_who_holds_it_is_named(live: Live) -> None:
    session = live.new(args=("--name", "fix-login"))
    with attach(live, session) as first:
        first.shows("> ")
        with attach(live, session) as second:
            assert second.ends() == 6
        error = session.error("resume", code=6)
        leave(first)
    assert re.search(r"agh: fix-login is in use by another terminal \(pts/\d+\)\r\n", second.printed)
    assert "hint: agh session attach fix-login --steal\r\n" in second.printed
    assert error["hint"] == "agh session resume fix-login --steal"


def test_whoever_loses_the_session_is_told_and_leaves(shared_with: Share) -> None:
    session = shared_with()
    with attach(session.live, session) as first:
        first.shows("> ")
        with attach(session.live, session, "--steal") as second:
            second.shows("> ")
            assert first.ends() == 6
            assert "was taken over by another terminal (pts/" in first.printed
            second.type("hello\n")
            second.shows("echo: hello\r\n> ")
            leave(second)


def test_a_session_taken_over_for_a_moment_is_lost(shared_with: Share) -> None:
    session = shared_with()
    with attach(session.live, session) as terminal:
        terminal.shows("> ")
        session.call("attach", holder="somebody", ttl=600, steal=True)
        session.call("detach", holder="somebody")
        assert terminal.ends() == 6
        assert "was taken over by somebody" in terminal.printed


def test_a_prompt_from_elsewhere_is_shown_to_the_holder(shared_with: Share) -> None:
    session = shared_with()
    with attach(session.live, session) as terminal:
        terminal.shows("> ")
        session.tell("/say from elsewhere")
        terminal.shows("> /say from elsewhere")
        terminal.shows("from elsewhere\r\n")
        terminal.type("/sleep 1\n")
        wait_until(lambda: len(session.events("user_message")) == 2)
        session.send("/say queued elsewhere")
        session.wait_idle()
        terminal.shows("> /say queued elsewhere")
        leave(terminal)
    assert terminal.printed.count("> /say from elsewhere") == 1
    assert terminal.printed.count("> /say queued elsewhere") == 1


def test_the_last_turn_is_shown(shared_with: Share) -> None:
    session = shared_with()
    session.tell("/say first answer")
    session.tell("/say second answer")
    with attach(session.live, session) as terminal:
        terminal.shows("second answer\r\n> ")
        leave(terminal)
    assert "first answer" not in terminal.printed
    assert terminal.printed.count("> /say second answer") == 1


def test_a_running_turn_is_shown_to_its_end(shared_with: Share) -> None:
    session = shared_with()
    session.send("/stream 20 0.05")
    with attach(session.live, session) as terminal:
        terminal.shows("chunk 20 ")
        session.wait_idle()
        terminal.shows("\n> ")
        leave(terminal)
    check_chunks(terminal.printed)
    assert len(numbers(terminal.printed)) == 20


def numbers(printed: str) -> list[int]:
    return [int(number) for number in re.findall(r"chunk (\d+) ", printed)]


def check_chunks(printed: str) -> None:
    assert numbers(printed) == list(range(1, len(numbers(printed)) + 1))
