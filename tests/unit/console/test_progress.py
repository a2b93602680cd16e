"""The bar of long work: on a terminal only, on stderr only, gone at the end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from agh.console.progress import progress
from tests.support.build import Home, conversation
from tests.support.terminal import read_to_end

WORK = """
import sys
from agh.console import progress
progress.PATIENCE = 0
for number in progress.progress(range(4), "counting", 4):
    print(number, flush=True)
    print("talk", number, file=sys.stderr, flush=True)
    if number == int(sys.argv[1]):
        raise SystemExit(3)
print("rich" in sys.modules)
"""


def watched(stops_at: int = 9, **env: str) -> tuple[str, str]:
    """Return what the work writes to stdout, a pipe, and to stderr, a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", WORK, str(stops_at)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm", **env},
    ) as process:
        os.close(theirs)
        text = read_to_end(ours).decode()
        os.close(ours)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == (3 if stops_at < 9 else 0)
    return out, text


def test_on_a_terminal() -> None:
    out, output = watched()
    assert out == "0\n1\n2\n3\nTrue\n"
    assert "counting" in output
    assert "/4" in output
    for number in range(4):
        assert f"talk {number}" in output
    assert output.endswith("\x1b[2K")  # the bar's line is cleared
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")  # the cursor is back


def test_work_that_fails_leaves_a_clean_terminal() -> None:
    out, output = watched(stops_at=2)
    assert out == "0\n1\n2\n"
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_can_nothing(term: str) -> None:
    out, output = watched(TERM=term)
    assert out.endswith("False\n")
    assert output == "".join(f"talk {number}\r\n" for number in range(4))


def test_in_a_pipe() -> None:
    result = subprocess.run([sys.executable, "-c", WORK, "9"], capture_output=True, text=True, timeout=20)
    assert result.stdout == "0\n1\n2\n3\nFalse\n"
    assert result.stderr == "".join(f"talk {number}\n" for number in range(4))


def test_it_hands_on_what_it_is_given() -> None:
    assert list(progress(iter("abc"), "spelling")) == ["a", "b", "c"]


def test_repair_and_prune_show_one(home: Home) -> None:
    for _ in range(3):
        home.session(conversation())
    slow = "from agh.cli import main; from agh.console import progress; progress.PATIENCE = 0; main.main()"
    for args in (["repair", "--all"], ["prune", "--keep", "1"]):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", slow, "session", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
        ) as process:
            os.close(theirs)
            text = read_to_end(ours).decode()
            os.close(ours)
            out, _ = process.communicate(timeout=20)
        assert ("repairing" if "repair" in args else "removing") in text
        assert out.decode().count("sess-") == (3 if "repair" in args else 2)
        assert "\x1b" not in out.decode()
