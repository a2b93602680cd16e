from __future__ import annotations

import json
import os
from base64 import b64decode
from pathlib import Path

import pytest

from agh.core.markdown import last_code
from tests.support.build import Home, calls, finishes, says, user
from tests.support.output import error_of
from tests.support.program import Agh
from tests.support.screens import print_on_screen

ANSWER = "Use **this**:\n\n```python\nold()\n```\n\nor\n\n~~~\nnew(\x1b)\n```\n~~~\n"


@pytest.fixture
def session(home: Home) -> str:
    drafts = [user("Hi"), says("Hello"), calls("c1"), says(ANSWER[:9]), says(ANSWER[9:]), finishes()]
    home.session(drafts, workspace_path=os.getcwd())
    return "@last"


def test_in_a_pipe_it_is_the_text_as_it_was_written(agh: Agh, session: str) -> None:
    assert agh("session", "last", session).stdout == ANSWER
    assert agh("session", "last").stdout == ANSWER
    assert agh("session", "last", "-o", "text").stdout == ANSWER
    message = json.loads(agh("session", "last", "-o", "json").stdout)["message"]
    assert (message["role"], message["content"]) == ("assistant", ANSWER)
    assert agh("session", "last", "--code").stdout == "new(\x1b)\n```\n"


def test_on_a_terminal_it_is_rendered(session: str) -> None:
    screen = print_on_screen("session", "last", NO_COLOR="1")
    assert screen.text == "Use this:\n\n  old()\n\nor\n\n  new(\\x1b)\n  ```"
    assert print_on_screen("session", "last", "--code").text == "new(\\x1b)\n```"


def test_the_answer_may_be_far_from_the_end(agh: Agh, home: Home) -> None:
    drafts = [says("here"), *(user(str(number), turn=f"turn-{number}") for number in range(50))]
    name = home.session(drafts).name
    assert agh("session", "last", name).stdout == "here\n"


def test_there_may_be_no_answer(agh: Agh, home: Home) -> None:
    name = home.session([user("Hi")]).name
    error_of(agh("session", "last", name, "-o", "json", code=4), "answer_missing", 4)
    name = home.session([says("no code")]).name
    assert "no code in its last answer" in agh("session", "last", name, "--code", code=4).stderr


def test_it_is_copied_by_the_desktops_program(agh: Agh, session: str, tmp_path: Path) -> None:
    program = tmp_path / "wl-copy"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/copied\n")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "WAYLAND_DISPLAY": "wayland-0"}
    env.pop("SSH_CONNECTION", None)
    result = agh("session", "last", "--copy", env=env)
    assert (result.stdout, result.stderr) == ("", f"copied {len(ANSWER)} characters with wl-copy\n")
    assert (tmp_path / "copied").read_text() == ANSWER
    program.write_text("#!/bin/sh\nexit 1\n")
    assert "no clipboard: pbcopy" in agh("session", "last", "--copy", env=env, code=4).stderr


def test_it_is_copied_by_the_terminal(session: str) -> None:
    variables = {"SSH_CONNECTION": "far away", "WAYLAND_DISPLAY": "wayland-0"}
    screen = print_on_screen("session", "last", "--copy", **variables)
    sequence = screen.raw[screen.raw.index(b"\x1b]52;c;") :]
    assert b64decode(sequence[7 : sequence.index(b"\x07")]).decode() == ANSWER
    assert screen.text == f"copied {len(ANSWER)} characters with the terminal (OSC 52)"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no code", None),
        ("```\na\n```", "a\n"),
        ("````\n```\na\n```\n````\n", "```\na\n```\n"),
        ("```\nopen", None),
        ("a ``` b\n```sh\nls\n```\nend", "ls\n"),
    ],
)
def test_the_last_piece_of_code(text: str, code: str | None) -> None:
    assert last_code(text) == code
