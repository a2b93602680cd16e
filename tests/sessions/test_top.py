"""`agh top` on real terminals: what it shows of live sessions, and what its keys do to them."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.live import Live, Session
from tests.support.permissions import ask_to_edit, requests
from tests.support.questions import form
from tests.support.screen import Screen, open_screen
from tests.support.wait import wait_until

FIRST = 2  # the line of the first session


def named(live: Live, name: str) -> Session:
    return live.new(args=("--name", name))


def select(screen: Screen, name: str) -> None:
    """Select the session with this name by arrows."""
    screen.shows(name)
    rows = [line.split()[0] for line in screen.lines[FIRST:] if line]
    screen.type("g" + "\x1b[B" * rows.index(name))
    screen.awaits(lambda: screen.selected().split()[:1] == [name], what=f"{name} to be selected")


def quit(screen: Screen) -> None:
    screen.type("q")
    assert screen.ends() == 0


@pytest.fixture(scope="module")
def module_work(module_live: Live) -> Session:
    return named(module_live, "work")


@pytest.fixture
def work(shared_live: Live, module_work: Session) -> Session:
    """Return the only session of a home, for tests that leave it as it is."""
    return module_work


def test_sessions_come_and_go(live: Live) -> None:
    first = named(live, "fix-login")
    first.tell("hello there")
    with open_screen(live, "top") as screen:
        screen.shows("1 session\n", "fix-login", "echo: hello there", "idle")
        second = named(live, "other")
        screen.shows("2 sessions\n", "other")
        second.stop()
        screen.shows("stopped")
        live.agh("session", "delete", second.id)
        screen.hides("other")
        screen.shows("1 session\n")
        quit(screen)
    assert first.is_live()


def test_a_permission_is_allowed_after_its_diff_was_shown(live: Live) -> None:
    quiet, asking = named(live, "quiet"), named(live, "asking")
    with open_screen(live, "top") as screen:
        select(screen, "quiet")
        ask_to_edit(asking, "a.txt")
        screen.shows("1 needs you", "waiting-for-input")
        assert screen.lines[FIRST].startswith("asking ")
        assert screen.selected().startswith("quiet "), "the selection stays with its session"
        select(screen, "asking")
        screen.shows("permission: edit: a.txt", "-old", "+new")
        screen.type("a")
        screen.shows("allow this?  y yes  a always  n back", "asking asks for permission", "+new")
        screen.type("n")
        screen.shows("q quit")
        assert [request.status for request in requests(asking)] == ["pending"], "nothing was confirmed"
        screen.type("ay")
        screen.shows("allowed: edit: a.txt")
        screen.shows("running")
        quit(screen)
    assert [request.decision for request in requests(asking)] == ["allowed"]
    assert quiet.is_live()


def test_a_permission_is_denied_and_a_long_diff_scrolls(live: Live) -> None:
    session = named(live, "asking")
    ask_to_edit(session, "a.txt", "b.txt", new_text="".join(f"line {n}\n" for n in range(60)))
    with open_screen(live, "top") as screen:
        screen.shows("and 1 more")
        screen.type("d")
        screen.shows("deny this?  y yes  d always", "+line 3", "lines 1 to 22 of ")
        assert "+line 59" not in screen.text
        screen.type("\x1b[6~" * 5)
        screen.shows("+line 59")
        screen.type("y")
        screen.shows("denied: edit: a.txt", "permission: edit: b.txt")
        quit(screen)
    assert [request.decision for request in requests(session)] == ["denied", None]


def test_two_screens_see_the_same_and_one_answer_counts(live: Live) -> None:
    session = named(live, "asking")
    ask_to_edit(session, "a.txt")
    with open_screen(live, "top") as first, open_screen(live, "top") as second:
        for screen in (first, second):
            screen.shows("permission: edit")
            screen.type("a")
            screen.shows("allow this?")
        first.type("y")
        first.shows("allowed: edit")
        second.shows("answered elsewhere")
        second.type("y")
        quit(first)
        quit(second)
    assert [request.decision for request in requests(session)] == ["allowed"]


def test_enter_attaches_and_detaching_returns(work: Session) -> None:
    with open_screen(work.live, "top") as screen:
        screen.shows("q quit")
        screen.type("\r")
        wait_until(lambda: work.meta().get("attach"), what="the lease")
        shown = len(screen.raw)

        def is_detached() -> bool:
            screen.type("\x04")
            return not work.meta().get("attach")

        screen.awaits(is_detached)
        screen.awaits(lambda: b"agh top" in screen.raw[shown:], what="the list")
        screen.shows("work", "q quit")
        quit(screen)
    assert work.is_live()


def test_an_attach_that_fails_is_explained(live: Live) -> None:
    session = named(live, "held")
    session.call("attach", holder="somebody", ttl=600, steal=False)
    with open_screen(live, "top") as screen:
        screen.shows("q quit")
        screen.type("\r")
        screen.shows("held is in use by somebody", "press Enter to return to agh top")
        screen.type("\r")
        screen.shows("q quit")
        quit(screen)


def test_a_session_is_started_with_a_prompt(live: Live) -> None:
    directory = live.workspace / "project"
    directory.mkdir()
    with open_screen(live, "top") as screen:
        screen.shows("no sessions yet: press n to start one")
        screen.type("n")
        screen.shows("agent:     echo", "directory: ", "/work\n", "prompt:")
        screen.type("\x1b[A/proj\t")
        screen.shows("/work/project\n")
        screen.type("\r\x1b[200~two\nlines\x1b[201~\r")
        screen.shows("── two ─", "idle", "started sess-")
        quit(screen)
    (session,) = live.sessions()
    assert session.meta()["workspace_path"] == str(directory)
    assert [text for _, text in session.inputs()] == ["two\nlines"]


def test_a_form_that_makes_no_sense_starts_nothing(live: Live) -> None:
    with open_screen(live, "top") as screen:
        screen.shows("q quit")
        screen.type("n")
        screen.shows("prompt:")
        screen.type("\x1b[A/nowhere\r\r")
        screen.shows("no such directory: ", "prompt:")
        screen.type("\x1b")
        screen.hides("prompt:")
        screen.type("n")
        screen.shows("prompt:")
        screen.type("\x1b[A\x1b[A\x08\x08\x08\x08nobody\r\r\r")
        screen.shows("there is no agent called nobody")
        quit(screen)
    assert live.sessions() == []


def test_a_session_is_stopped_if_that_is_confirmed(live: Live) -> None:
    session = named(live, "work")
    with open_screen(live, "top") as screen:
        screen.shows("work")
        screen.type("s")
        screen.shows("stop work? y, n")
        screen.type("n")
        screen.hides("stop work?")
        assert session.is_live()
        screen.type("s")
        screen.shows("stop work? y, n")
        screen.type("y")
        screen.shows("work is stopped")
        screen.type("s")
        screen.shows("work is not live")
        quit(screen)
    assert not session.is_live()


def test_a_question_is_answered_on_the_terminal(live: Live) -> None:
    session = named(live, "asking")
    session.send(form("Paint", colour={"type": "string"}))
    with open_screen(live, "top") as screen:
        screen.shows("question: ", "a answer")
        screen.type("a")
        screen.shows("colour")
        screen.awaits(lambda: b"\x1b[?1049l" in screen.raw)
        screen.type("blue\n")
        screen.shows("q quit", "idle")
        quit(screen)


def test_it_rings_for_what_comes_in(live: Live) -> None:
    live.configure('[notify]\nbell = true\nosc = "9"\n')
    session = named(live, "work")
    with open_screen(live, "top") as screen:
        screen.shows("work")
        assert b"\x1b]9;" not in screen.raw
        ask_to_edit(session, "a.txt")
        screen.awaits(lambda: b"\x1b]9;work: permission: edit: " in screen.raw, what="the notification")
        quit(screen)


@pytest.mark.parametrize("ignores", [False, True], ids=["as usual", "nohup"])
def test_a_terminal_that_is_closed_leaves_nothing(work: Session, ignores: bool) -> None:
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN) if ignores else None
    try:
        with open_screen(work.live, "top") as screen:
            screen.shows("work")
            screen.hang_up()
            wait_until(lambda: screen.process.poll() is not None, what="the end of agh top")
    finally:
        if ignores:
            signal.signal(signal.SIGHUP, handler)
    assert work.is_live()
    assert [process.pid for process in work.live.processes() if "top" in process.argv] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back(live: Live, number: signal.Signals) -> None:
    with open_screen(live, "top") as screen:
        screen.shows("no sessions yet")
        os.kill(screen.process.pid, number)
        assert screen.ends() == 128 + number
        assert b"\x1b[?1049l" in screen.raw


def test_it_needs_a_terminal(live: Live) -> None:
    assert live.agh("top", code=2).stderr.startswith("agh: agh top needs a terminal\nhint: agh list")
