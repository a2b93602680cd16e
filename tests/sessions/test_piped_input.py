"""What comes on standard input beside a prompt: pipes are read, everything else is left alone."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.live import Live, Session
from tests.support.program import AGH
from tests.support.wait import PATIENCE, wait_until

RUN = ("run", "--agent", "echo", "-o", "text")
DIFF = "-old\n+new\n"
BOTH = "review this\n\n```\n-old\n+new\n```"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass


def sent(session: Session) -> str:
    (event,) = session.events("user_message")
    return str(event.content["text"])


def only(live: Live) -> Session:
    (session,) = live.sessions()
    return session


def test_run_sends_the_text_and_then_what_is_piped_in(live: Live) -> None:
    result = live.agh(*RUN, "review this", stdin=None, input=DIFF)
    assert sent(only(live)) == BOTH
    assert result.stderr == ""


def test_the_fence_is_longer_than_any_in_the_input(live: Live) -> None:
    live.agh(*RUN, "review this", stdin=None, input="a\n````\nb")
    assert sent(only(live)) == "review this\n\n`````\na\n````\nb\n`````"


def test_a_file_with_the_prompt_takes_a_pipe_too(live: Live) -> None:
    task = live.workspace / "task.md"
    task.write_text("review this\n")
    live.agh(*RUN, "--file", task, stdin=None, input=DIFF)
    assert sent(only(live)) == BOTH


@pytest.mark.parametrize("input", ["", " \n"])
def test_an_empty_pipe_adds_nothing(live: Live, input: str) -> None:
    """As in cron, which gives a job a pipe that is at its end."""
    live.agh(*RUN, "hello", stdin=None, input=input)
    assert sent(only(live)) == "hello"


def test_bytes_that_are_no_utf8_are_replaced(live: Live) -> None:
    live.agh(*RUN, "look", stdin=None, input=b"caf\xe9", text=False)
    assert sent(only(live)) == "look\n\n```\ncaf\ufffd\n```"


def test_no_stdin_leaves_the_pipe_alone(live: Live, pipe: tuple[int, int]) -> None:
    """Though nobody ever closes it."""
    os.write(pipe[1], b"mine")
    live.agh(*RUN, "hello", "--no-stdin", stdin=pipe[0])
    assert sent(only(live)) == "hello"
    assert os.read(pipe[0], 10) == b"mine"


def test_a_loop_over_a_file_keeps_its_list(live: Live) -> None:
    names = live.workspace / "list"
    names.write_text("one\ntwo\n")
    loop = 'while read -r name; do "$0" run --agent echo -o text "$name"; done < "$1"'
    result = subprocess.run(
        ["sh", "-c", loop, AGH, str(names)],
        env={**os.environ, "AGH_HOME": str(live.home)},
        cwd=live.workspace,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == "echo: one\necho: two\n"


def test_a_file_is_read_if_the_dash_says_so(live: Live) -> None:
    diff = live.workspace / "diff"
    diff.write_text(DIFF)
    with diff.open() as file:
        live.agh(*RUN, "review this", "-", stdin=file)
    assert sent(only(live)) == BOTH


def test_what_is_no_pipe_is_not_read(live: Live) -> None:
    ours, theirs = socket.socketpair()
    master, slave = pty.openpty()
    with ours, theirs:
        for stdin in (theirs, slave, subprocess.DEVNULL):
            assert live.agh(*RUN, "hello", stdin=stdin).stdout == "echo: hello\n"
    os.close(master)
    os.close(slave)
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" run --agent echo -o text hello <&-', AGH],
        env={**os.environ, "AGH_HOME": str(live.home)},
        cwd=live.workspace,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert closed.stdout == "echo: hello\n"


def test_a_silent_pipe_is_mentioned_and_awaited(live: Live, pipe: tuple[int, int]) -> None:
    process = live.start(*RUN, "review this", stdin=pipe[0], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == (b"reading standard input, which is a pipe; --no-stdin ignores it\n")
    os.write(pipe[1], DIFF.encode())
    os.close(pipe[1])
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, b"")
    assert sent(only(live)) == BOTH


def test_a_pipe_that_never_ends_is_given_up(live: Live, pipe: tuple[int, int]) -> None:
    """By then nothing was sent: a turn without its input would be paid for in vain."""
    result = live.agh(*RUN, "review this", "--timeout", "1s", stdin=pipe[0], code=3)
    assert result.stderr.splitlines()[1:] == [
        "agh: standard input is a pipe that is still open after 1 s",
        "hint: --no-stdin ignores it, < /dev/null closes it",
    ]
    assert live.sessions() == []
    wait_until(lambda: not live.processes())


@pytest.mark.parametrize("words", [("review this",), ("-",)])
def test_a_flood_is_refused_while_it_is_read(live: Live, words: tuple[str, ...]) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as flood:
        result = live.agh(*RUN, *words, stdin=flood.stdout, code=2)
        flood.kill()
    assert (
        result.stderr.splitlines()[0]
        == "agh: the prompt is too large: more than 65536 bytes; the maximum is 65536"
    )
    assert live.sessions() == []


def test_prompt_reads_a_pipe_only_with_a_dash(live: Live, pipe: tuple[int, int]) -> None:
    session = live.new()
    os.write(pipe[1], b"mine")
    session.prompt("hello", stdin=pipe[0])
    assert os.read(pipe[0], 10) == b"mine"
    session.prompt("review this", "-", stdin=None, input=DIFF)
    live.agh("prompt", "--continue", "again", "-", stdin=None, input=DIFF, cwd=live.workspace)
    texts = [event.content["text"] for event in session.events("user_message")]
    assert texts == ["hello", BOTH, BOTH.replace("review this", "again")]


def test_a_prompt_without_quotes_is_refused(live: Live) -> None:
    result = live.agh(*RUN, "review", "this", code=2)
    assert result.stderr.splitlines()[0] == "agh: the prompt is more than one word"
