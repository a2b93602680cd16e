"""`[env] file`: variables for agents from a private file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agh.adapters.env_file import add_variables, read
from agh.errors import AghError, ConfigInvalid, EnvFileUnsafe


def write(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "env"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_lines_are_read_as_a_shell_reads_them(tmp_path: Path) -> None:
    lines = [
        "# a comment",
        "",
        "PLAIN=sk-1 # not part of it",
        "HASH=a#b",
        'export QUOTED = "say \\"hi\\" # no" # a comment',
        "SINGLE='\\n'",
        "EMPTY=",
    ]
    assert read(write(tmp_path, "\n".join(lines))) == {
        "PLAIN": "sk-1",
        "HASH": "a#b",
        "QUOTED": 'say "hi" # no',
        "SINGLE": "\\n",
        "EMPTY": "",
    }


def test_what_is_set_already_stays(tmp_path: Path) -> None:
    path = write(tmp_path, "KEY=file\nOTHER=file\n")
    assert add_variables(path, {"KEY": "shell"}) == {"KEY": "shell", "OTHER": "file"}
    assert add_variables("", {"KEY": "shell"}) == {"KEY": "shell"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused_with_the_command_that_helps(
    tmp_path: Path, mode: int
) -> None:
    path = write(tmp_path, "KEY=sk-secret", mode)
    with pytest.raises(EnvFileUnsafe) as error:
        read(path)
    assert error.value.hint == f"chmod 600 {path}"
    assert f"{mode:o}" in error.value.message


@pytest.mark.parametrize("line", ["sk-secret", "1KEY=sk-secret", 'KEY="sk-secret', "KEY='sk-secret' x"])
def test_a_line_that_cannot_be_read_is_named_and_never_quoted(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigInvalid) as error:
        read(write(tmp_path, f"OK=1\n{line}\n"))
    assert "line 2" in error.value.message
    assert "sk-secret" not in error.value.message


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(AghError) as error:
            read(str(path))
        assert str(path) in error.value.message
        assert error.value.hint


def test_only_a_line_feed_ends_a_value(tmp_path: Path) -> None:
    text = "A=one\x0ctwo\u2028three\r\nB=four\n"
    assert read(write(tmp_path, text)) == {"A": "one\x0ctwo\u2028three", "B": "four"}
