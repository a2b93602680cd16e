"""The chat on real terminals: what is typed and pasted, what is shown, and keys that always work."""

from __future__ import annotations

import re
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import Event, Live, Session
from tests.support.program import AGH
from tests.support.resume import define
from tests.support.screen import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    CTRL_J,
    CTRL_O,
    CTRL_Z,
    Screen,
    open_chat,
)
from tests.support.wait import wait_until

BASH = shutil.which("bash")
READY = "/say ready"  # the turn that each chat begins with, so that it shows nothing of another test


@pytest.fixture(scope="module")
def named_session(module_live: Live) -> Session:
    return module_live.new(args=("--name", "fix-login"))


@pytest.fixture
def session(shared_live: Live, named_session: Session) -> Iterator[Session]:
    """Yield a live session called fix-login, idle and detached, whose last turn is READY."""
    named_session.revive()
    named_session.tell(READY)
    wait_until(lambda: named_session.meta()["attach"] is None)
    yield named_session
    named_session.cancel_all()


def prompts(session: Session) -> list[str]:
    """Return the prompts since READY, oldest first."""
    texts = [text for _, text in session.inputs()]
    return texts[len(texts) - texts[::-1].index(READY) :] if READY in texts else texts


def events(session: Session, *types: str) -> list[Event]:
    """Return the events of these types since READY."""
    starts = [event for event in session.events("user_message") if event.content["text"] == READY]
    ready = starts[-1].turn_id if starts else ""
    since = max((event.sequence for event in session.events(turn=ready)), default=0)
    return [event for event in session.events(*types) if event.sequence > since]


def attach(session: Session, *args: object, **options):  # type: ignore[no-untyped-def]
    return open_chat(session.live, "attach", session.id, *args, **options)


def leave(screen: Screen) -> None:
    """Press Ctrl-D, and see that the terminal is left as it was."""
    screen.type(CTRL_D)
    assert screen.ends() == 0
    assert "detached; the session stays live" in screen.text
    assert screen.has_cursor and not screen.takes_pastes


def is_idle(screen: Screen) -> bool:
    return bool(re.search(r"^idle ·", screen.text, re.MULTILINE))


@pytest.mark.parametrize(
    ("columns", "lines", "background"),
    [(80, 24, "15;0"), (200, 50, "0;15"), (40, 20, "")],
    ids=["80x24 dark", "200x50 light", "40x20"],
)
def test_two_hundred_pasted_lines_are_one_prompt(
    session: Session, columns: int, lines: int, background: str
) -> None:
    with attach(session, columns=columns, lines=lines, COLORFGBG=background) as screen:
        screen.shows("idle ·")
        assert re.match(r"fix-login\necho · small · ask · context \d %\n", screen.text)
        assert str(session.live.workspace)[:20] in screen.text
        pasted = "\n".join(f"line {number}" for number in range(1, 201))
        screen.paste(pasted)
        screen.shows("line 200")
        assert not prompts(session), "it waits for Enter"
        screen.type("\r")
        wait_until(lambda: prompts(session))
        session.wait_idle()
        screen.awaits(lambda: is_idle(screen))
        assert prompts(session) == [pasted]
        assert all(len(line) <= columns for line in screen.lines)
        leave(screen)


def test_lines_typed_with_alt_enter_and_ctrl_j_are_one_prompt(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type(f"one{ALT_ENTER}two{CTRL_J}three")
        screen.shows("> one\n  two\n  three")
        screen.type("\r")
        screen.shows("echo: one two three")
        assert prompts(session) == ["one\ntwo\nthree"]
        screen.awaits(lambda: is_idle(screen))
        screen.type("\x1b[A")
        screen.shows("> one\n  two\n  three\nidle")  # the history has it as it was
        screen.type(CTRL_C)
        leave(screen)


def test_what_is_typed_ahead_is_queued_in_order(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//stream 100000 0.01\r")
        screen.shows("chunk 3 ")
        screen.type("//say second\r")
        screen.shows("1 queued")
        screen.type("//say third\r")
        screen.shows("2 queued")
        screen.type("draft")
        screen.shows("> draft")
        screen.type(CTRL_C)
        screen.shows("cancelled ·")
        screen.awaits(lambda: is_idle(screen))
        assert "> draft" in screen.text, "what is typed stays"
        screen.type(CTRL_C)
        leave(screen)
    assert prompts(session) == ["/stream 100000 0.01", "/say second", "/say third"]
    texts = screen.history
    assert texts.index("> /say second") < texts.index("\nsecond\n") < texts.index("> /say third")


def test_a_resize_while_it_streams_loses_nothing(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//stream 60 0.02\r")
        screen.shows("chunk 5 ")
        screen.type("typed meanwhile")
        screen.resize(50, 20)
        screen.shows("chunk 20 ")
        screen.resize(100, 30)
        screen.awaits(lambda: is_idle(screen))
        assert "> typed meanwhile\nidle ·" in screen.text
        screen.type(CTRL_C)
        leave(screen)
    answer = screen.history.rpartition("> /stream")[2]
    assert [int(number) for number in re.findall(r"chunk\s+(\d+)", answer)] == list(range(1, 61))


def press_in_state(screen: Screen, state: str) -> None:
    """Bring the chat into a state."""
    screen.shows("idle ·")
    if state == "streaming":
        screen.type("//stream 100000 0.01\r")
        screen.shows("chunk 3 ")
    elif state == "asking":
        screen.type("//ask path=a.txt\r")
        screen.shows("allow it?")
    elif state == "edited":
        screen.type(CTRL_O)
        screen.shows("> from the editor")
        screen.type(CTRL_C)  # clears the line
        screen.awaits(lambda: "from the editor" not in screen.text)


def editor(folder: Path) -> dict[str, str]:
    program = folder / "editor"
    program.write_text('#!/bin/sh\nsleep 0.01\nprintf "from the editor\\n" > "$1"\ntouch -d "1 hour" "$1"\n')
    program.chmod(0o755)
    return {"VISUAL": str(program), "EDITOR": "false"}


@pytest.mark.parametrize("state", ["idle", "streaming", "asking", "edited"])
def test_ctrl_c_cancels_and_a_second_one_detaches(session: Session, tmp_path: Path, state: str) -> None:
    with attach(session, **editor(tmp_path)) as screen:
        press_in_state(screen, state)
        screen.type(CTRL_C + CTRL_C)
        assert screen.ends() == 0
        assert "detached; the session stays live" in screen.text
    assert session.is_live()
    if state in ("streaming", "asking"):
        (end,) = wait_until(lambda: events(session, "done"))
        assert end.content["stop_reason"] == "cancelled"


def test_ctrl_c_says_what_the_next_one_does(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type(CTRL_C)
        screen.shows("press Ctrl-C again to leave ·")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)


@pytest.mark.parametrize("state", ["streaming", "asking", "edited"])
def test_ctrl_d_leaves_and_the_turn_goes_on(session: Session, tmp_path: Path, state: str) -> None:
    with attach(session, **editor(tmp_path)) as screen:
        press_in_state(screen, state)
        leave(screen)
    wait_until(lambda: session.meta()["attach"] is None)
    assert session.is_live() and not events(session, "done")


def test_ctrl_c_in_the_next_turn_cancels_that(session: Session) -> None:
    """However soon it comes. Nothing of the cancelled turn is drawn in the next one; prompts still work."""
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//ask path=a.txt\r")
        screen.shows("allow it?")
        screen.type(CTRL_C)
        screen.awaits(lambda: "cancelled ·" in screen.text and "allow it?" not in screen.text)
        screen.type("//elicit Which?\r")
        screen.shows("answer:")
        assert not re.search(r"^[⠀-⣿] May I", screen.text, re.MULTILINE), "a tool of the turn before"
        screen.type(CTRL_C)
        wait_until(lambda: len(events(session, "done")) == 2)
        screen.awaits(lambda: "answer:" not in screen.text and screen.text.count("cancelled ·") == 2)
        screen.type("hello\r")
        screen.shows("echo: hello")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_ctrl_z_suspends_and_nothing_is_lost_meanwhile(session: Session) -> None:
    with open_chat(session.live, "--norc", "-i", executable=BASH, PS1="shell$ ") as screen:
        screen.shows("shell$")
        screen.type(f"{AGH} attach {session.id}\r")
        screen.awaits(lambda: is_idle(screen))
        screen.type("//stream 60 0.02\r")
        screen.shows("chunk 3 ")
        screen.type(CTRL_Z)
        screen.shows("Stopped")
        assert screen.has_cursor
        session.wait_idle()
        screen.type("fg\r")
        screen.awaits(lambda: is_idle(screen))
        answer = screen.history.rpartition("fg\n")[2]
        assert [int(number) for number in re.findall(r"chunk\s+(\d+)", answer)] == list(range(1, 61))
        screen.paste("one\ntwo")
        screen.shows("> one\n  two")
        screen.type(CTRL_C)
        screen.awaits(lambda: "> one" not in screen.text)
        screen.type(CTRL_D)
        screen.shows("detached; the session stays live")
        screen.type("exit\r")
        assert screen.ends() == 0


def test_what_is_typed_before_the_chat_is_there_counts(session: Session) -> None:
    with attach(session, COLORFGBG="15;0") as screen:
        screen.type(f"early\r{CTRL_D}")
        assert screen.ends() == 0
    assert prompts(session) == ["early"]


def test_an_edit_is_approved_with_its_diff(session: Session) -> None:
    (session.live.workspace / "a.txt").write_text("one\nold\n")
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//write a.txt one\\nnew\r")
        screen.shows("allow it? [y] allow once")
        assert "? the agent wants to edit:" in screen.text
        assert screen.colours("-old") != screen.colours("+new")
        assert "[v]" not in screen.text, "all of it is there"
        screen.type("y\r")
        screen.shows("write a.txt: ok")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)
    assert (session.live.workspace / "a.txt").read_text() == "one\nnew"


def test_what_the_agent_says_before_it_asks_is_above_the_question(session: Session) -> None:
    """Also in the first turn of a chat, whose request can be there before its first row is shown."""
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type(f"I will write{CTRL_J}/write notes.txt hello\r")
        screen.shows("allow it?")
        assert screen.text.index("echo: I will write") < screen.text.index("? the agent wants to edit")
        screen.type("n\r")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)


def test_a_long_diff_is_folded_and_shown_in_the_pager(session: Session, tmp_path: Path) -> None:
    pager, paged = tmp_path / "pager", tmp_path / "paged"
    pager.write_text(f"#!/bin/sh\ncat > {paged}\n")
    pager.chmod(0o755)
    (session.live.workspace / "a.txt").write_text("".join(f"old {number}\n" for number in range(100)))
    with attach(session, PAGER=str(pager)) as screen:
        screen.shows("idle ·")
        screen.type("//write a.txt new\r")
        screen.shows("[v] view all:")
        assert "… 92 more lines" in screen.text
        screen.type("v\r")
        wait_until(lambda: paged.exists() and "old 99" in paged.read_text())
        screen.shows("allow it?")
        screen.type("n\r")
        screen.shows("not allowed to edit")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)


def test_what_is_being_typed_approves_nothing(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//ask path=a.txt\r")
        screen.shows("allow it?")
        screen.type("yes please")
        screen.shows("> yes please")
        screen.type("\r")
        screen.shows("1 queued")
        assert not events(session, "done") and len(events(session, "permission")) == 1
        screen.type("n\r")
        screen.shows("permission: reject_once")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)
    assert prompts(session)[1] == "yes please"


def test_an_answer_that_was_begun_before_the_question_is_a_prompt(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//say wait\x1b\r/sleep 1\x1b\r/ask path=a.txt\r")
        screen.shows("running")
        screen.type("ye")
        screen.shows("allow it?")
        screen.type("s\r")
        screen.shows("1 queued")
        assert len(events(session, "permission")) == 1
        screen.awaits(lambda: not screen.lines[-2].startswith("> y"))
        screen.type("no\r")
        screen.shows("permission: reject_once")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)
    assert prompts(session)[1] == "yes"


def test_a_form_is_filled_in_on_the_input_line(session: Session) -> None:
    with attach(session, columns=40, lines=20) as screen:
        screen.shows("idle ·")
        screen.type("//elicit Which?\r")
        screen.shows("answer:")
        assert "? the agent asks: Which?" in screen.text
        screen.type("this one\r")
        screen.shows('elicit: accept {"answer": "this one"}')
        screen.awaits(lambda: is_idle(screen))
        leave(screen)


def test_answered_elsewhere_the_question_goes_away(session: Session) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("//ask path=a.txt\r")
        screen.shows("allow it?")
        session.decide("allow")
        screen.shows("permission: allow_once")
        screen.awaits(lambda: "allow it?" not in screen.text and is_idle(screen))
        leave(screen)


def test_two_terminals_and_a_stolen_lease(session: Session) -> None:
    with attach(session) as first:
        first.shows("idle ·")
        with attach(session) as second:
            assert second.ends() == 6
            assert "fix-login is in use by another terminal" in second.text
        with attach(session, "--steal") as third:
            third.shows("idle ·")
            assert first.ends() == 6
            assert "was taken over by another terminal" in first.text
            third.type("hello\r")
            third.shows("echo: hello")
            leave(third)


def test_a_session_taken_over_for_a_moment_is_lost(session: Session) -> None:
    """The event says so, whatever the session's state is by the time it is read."""
    with attach(session) as screen:
        screen.shows("idle ·")
        session.call("attach", holder="somebody", ttl=600, steal=True)
        session.call("detach", holder="somebody")
        assert screen.ends() == 6
        assert "fix-login was taken over by somebody" in screen.text


def test_killed_in_a_turn_another_terminal_joins_at_once(session: Session) -> None:
    with attach(session) as first:
        first.shows("idle ·")
        first.type("//stream 60 0.02\r")
        first.shows("chunk 3 ")
        first.process.kill()
        first.process.wait()
        wait_until(lambda: session.meta()["attach"] is None)
        with attach(session) as second:
            second.shows("chunk 60")
            second.awaits(lambda: is_idle(second))
            answer = second.history.rpartition("> /stream")[2]
            assert [int(number) for number in re.findall(r"chunk\s+(\d+)", answer)] == list(range(1, 61))
            leave(second)


def test_a_session_that_stops_is_resumed_by_the_next_prompt(live: Live) -> None:
    session = live.new()
    with attach(session) as screen:
        screen.shows("idle ·")
        session.stop()
        screen.shows("your next prompt resumes it")
        screen.type("hello again\r")
        screen.shows("echo: hello again")
        screen.awaits(lambda: is_idle(screen))
        assert prompts(session) == ["hello again"]
        leave(screen)


def test_commands(live: Live, tmp_path: Path) -> None:
    session = live.new()
    other = live.new(args=("--name", "the-other"))
    with attach(session, PAGER="cat") as screen:
        screen.shows("idle ·")
        assert "\necho · small · ask\n" in screen.text
        for typed, shown in (
            ("/model", "* small"),
            ("/model large", "model: large"),
            ("/mode", "* ask"),
            ("/agent", "echo"),
            ("/diff", "the last turn reported no changed files"),
            ("/cost", "the agent has reported no usage"),
            ("/queue", "the queue is empty"),
            ("/last", "no tool has printed anything yet"),
            ("/hlep", "did you mean /help?"),
        ):
            screen.type(f"{typed}\r")
            screen.shows(shown)
        assert session.meta()["model"] == "large" and not session.inputs()
        screen.shows("large ·")
        screen.type("//edit a.txt new\r")
        screen.shows("a.txt  +1 -0")
        screen.awaits(lambda: is_idle(screen))
        screen.type("/diff\r")
        screen.shows("@@ -0,0 +1 @@")
        screen.type("//repeat 1 /commands\r")
        wait_until(lambda: session.meta().get("commands"))
        screen.awaits(lambda: is_idle(screen))
        screen.type("/say known to the agent\r")
        screen.shows("\nknown to the agent\n")
        screen.awaits(lambda: is_idle(screen))
        screen.type("/attach the-o\t\r")
        screen.shows("the-other\n")
        wait_until(lambda: other.meta()["attach"])
        screen.type("/quit\r")
        assert screen.ends() == 0
    assert not other.meta()["attach"] and not session.meta()["attach"]


def test_files_are_completed_and_attached(session: Session) -> None:
    (session.live.workspace / "notes.md").write_text("remember\n")
    (session.live.workspace / "picture.png").write_bytes(b"\x89PNG")
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("read @not\t")
        screen.shows("> read @notes.md")
        screen.type(f" now{CTRL_J}{session.live.workspace}/picture.png\r")
        screen.shows("echo: read @notes.md now")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)
    ((prompt,),) = session.fetch("SELECT prompt FROM inputs ORDER BY id DESC LIMIT 1")
    assert len(prompts(session)) == 1
    assert '"resource"' in prompt and "remember" in prompt and '"image/png"' in prompt


def test_the_history_is_in_the_session_alone(session: Session) -> None:
    """The log has it, which only its owner can read; no copy is made."""
    session.tell("/say first")
    before = {path.name for path in session.directory.iterdir()}
    with attach(session) as screen:
        screen.awaits(lambda: is_idle(screen) and "first\n" in screen.text)
        screen.type("\x1b[A")
        screen.shows("> /say first\nidle")
        screen.type(CTRL_C)
        leave(screen)
    assert {path.name for path in session.directory.iterdir()} <= before | {"events.db-wal", "events.db-shm"}
    assert stat.S_IMODE((session.directory / "events.db").stat().st_mode) == 0o600


def test_nothing_of_the_agent_drives_the_terminal(live: Live) -> None:
    """Not its text, its title, its commands or its options."""
    hostile = "\x1b]0;owned\x07\x1b[2J"
    session = live.new()
    session.tell(f"/title {hostile}\n/say {hostile}seen")
    session.send(f"/ask path=a.txt {hostile}")
    with attach(session, columns=40, lines=20) as screen:
        screen.shows("allow it?")
        screen.type("n\r")
        screen.awaits(lambda: is_idle(screen))
        screen.type(CTRL_D)
        screen.ends()
    assert b"\x1b]0;" not in screen.raw and b"\x1b[2J" not in screen.raw
    assert "\\x1b]0;owned" in screen.history


def test_the_session_goes_to_another_agent(live: Live) -> None:
    define(live, "other")
    define(live, "broken", "--bogus")
    session = live.new()
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.type("remember me\r")
        screen.shows("echo: remember me")
        screen.awaits(lambda: is_idle(screen))
        for typed, shown in (
            ("/agent nobody", "there is no agent called nobody"),
            ("/agent echo", "echo is already the agent of this session"),
        ):
            screen.type(f"{typed}\r")
            screen.shows(shown)
        assert session.is_live() and session.meta()["agent_name"] == "echo"
        screen.type("/agent oth\t\r")
        screen.shows("handing over from echo to other: echo stops")
        screen.shows("handed over from echo to other; the agent gets the history")
        wait_until(lambda: session.meta()["agent_name"] == "other" and session.meta()["attach"])
        screen.awaits(lambda: is_idle(screen))
        screen.type("//recall\r")
        screen.shows("[USER]: remember me")
        screen.awaits(lambda: is_idle(screen))
        screen.type("/agent broken\r")
        screen.shows("handing over from other to broken")
        screen.shows("resumed by")
        screen.awaits(lambda: is_idle(screen))
        assert session.meta()["agent_name"] == "other", "it stays with the agent it had"
        screen.type("//stream 100000 0.01\r")
        screen.shows("chunk 3 ")
        screen.type("/agent echo\r")
        screen.shows("a turn is running")
        screen.type(CTRL_C)
        screen.shows("cancelled ·")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back(session: Session, number: signal.Signals) -> None:
    with attach(session) as screen:
        screen.shows("idle ·")
        screen.process.send_signal(number)
        assert screen.ends() == 128 + number
        assert not screen.takes_pastes and screen.has_cursor
    assert session.is_live()


def test_a_file_that_cannot_be_read_and_an_editor_that_writes_no_text_end_nothing(session: Session) -> None:
    editor = session.live.workspace / "editor"
    editor.write_text('#!/bin/sh\nprintf "\\377\\376" > "$1"\n')
    editor.chmod(0o700)
    with attach(session, VISUAL=str(editor), lines=40) as screen:
        screen.shows("idle ·")
        screen.type("see @/proc/self/mem\r")
        screen.shows("/proc/self/mem cannot be read")
        screen.shows("> see @/proc/self/mem")  # it is back on the input line
        screen.type(CTRL_C + CTRL_O)
        screen.shows("the editor did not write UTF-8")
        screen.type("hello\r")
        screen.shows("echo: hello")
        screen.awaits(lambda: is_idle(screen))
        leave(screen)
    assert prompts(session) == ["hello"]
