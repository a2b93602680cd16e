"""What every command shares: help, version, errors, the way a command line is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from agh import __version__
from agh.cli.main import root
from tests.support.build import Home, conversation
from tests.support.output import error_of, message_of
from tests.support.program import Agh, in_process

READING = [
    ["session", "list"],
    ["session", "status", "talk"],
    ["session", "events", "talk"],
    ["session", "history", "talk"],
    ["session", "transcript", "talk"],
    ["session", "recap", "talk"],
    ["session", "repair", "talk"],
    ["session", "repair", "--all"],
    ["doctor"],
]

EXECUTED = {(), ("session",), ("run",), ("new",), ("list",), ("show",)}  # the help of these, by the program


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            subcommand = group.get_command(context, name)
            assert subcommand is not None
            yield from commands(subcommand, (*path, name))


@pytest.mark.parametrize("path", list(commands(root)), ids=" ".join)
def test_help_for_every_command(agh: Agh, home: Home, path: tuple[str, ...]) -> None:
    by_exec = path[-1:] in EXECUTED
    result = agh(*path, "--help") if by_exec else in_process(*path, "--help")
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout.startswith(f"Usage: {' '.join(['agh', *path])} ")
    assert "Example" in result.stdout
    assert in_process(*path, "-h").stdout == result.stdout
    assert all(len(line) <= 120 for line in result.stdout.splitlines())
    assert not home.path.exists()


def test_every_command_that_has_an_output_format_has_json_and_json_lines() -> None:
    found = 0
    for path in commands(root):
        command: click.Command = root
        for name in path:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), name) or command
        for param in command.params:
            if param.name == "output" and isinstance(param.type, click.Choice):
                assert {"json", "jsonl"} <= set(param.type.choices), path
                found += 1
    assert found > 30


@pytest.mark.parametrize("path", list(commands(root)), ids=" ".join)
def test_an_example_stays_on_its_line(path: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    """A person copies it: an example must not be broken in the middle by the width of the help."""
    printed = in_process(*path, "--help").stdout
    example = printed[printed.index("Example") :].rstrip() if "Example" in printed else ""
    assert all(
        line.strip().startswith(("Example", "agh ", "git diff | agh ")) for line in example.splitlines()
    )


def test_no_arguments_is_help(agh: Agh) -> None:
    assert agh().stdout == agh("--help").stdout


def test_a_group_alone_is_help(agh: Agh) -> None:
    assert agh("session", code=None).stdout == agh("session", "--help").stdout


def test_version(agh: Agh, home: Home) -> None:
    assert agh("--version").stdout == f"agh {__version__}\n"
    assert agh("--version", "extra", code=None).stdout == f"agh {__version__}\n"
    module = subprocess.run([sys.executable, "-m", "agh", "--version"], capture_output=True, text=True)
    assert (module.returncode, module.stdout) == (0, f"agh {__version__}\n")
    assert not home.path.exists()


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("output", ["human", "json", "jsonl"])
def test_every_command_has_the_three_forms(
    home: Home, command: list[str], output: str, request: pytest.FixtureRequest
) -> None:
    home.session(conversation(), name="talk")
    result = in_process(*command, "-o", output)
    assert result.returncode == 0, result.stderr
    out = result.stdout
    assert out or command[1:2] == ["list"]
    if output == "json":
        assert len(json.loads(out)) == 1 or "repair" in command
        assert out.count("\n") == 1 or "events" in command
    if output == "jsonl":
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


@pytest.mark.parametrize(
    ("args", "exit", "message", "hint"),
    [
        (["sesion"], 2, "agh has no command 'sesion'", "agh session"),
        (["session", "evnets", "x"], 2, "agh session has no command 'evnets'", "agh session events x"),
        (["session", "xyzzy"], 2, "agh session has no command 'xyzzy'", "agh session --help"),
        (["--bogus"], 2, "No such option '--bogus'", "agh --help"),
        (["session", "list", "--bogus"], 2, "No such option '--bogus'", "agh session list --help"),
        (
            ["session", "wait", "--until"],
            2,
            "Option '--until' requires an argument",
            "agh session wait --help",
        ),
        (["run", "--rm", "--keep", "x"], 2, "give either --rm or --keep, not both", "agh run --help"),
        (["session", "rename", "x"], 2, "Missing argument 'NAME'", "agh session rename --help"),
        (["session", "list", "--limt", "1"], 2, "No such option '--limt'", "agh session list --limit"),
        (["agent", "lst"], 2, "agh agent has no command 'lst'", "agh agent list"),
        (["agent", "show", "ehco"], 4, "there is no agent called ehco", "did you mean echo?"),
        (
            ["session", "wait", "x", "--until", "idel"],
            2,
            "Invalid value for '--until': 'idel' is not one of 'idle', 'turn', 'stopped', 'permission', "
            "'question'",
            "did you mean idle?",
        ),
        (["session", "status", "nope"], 4, "no session matches 'nope'", "agh session list --all"),
    ],
)
def test_errors_for_people(agh: Agh, args: list[str], exit: int, message: str, hint: str) -> None:
    result = agh(*args, code=exit)
    assert result.stdout == ""
    assert message_of(result) == message
    assert result.stderr.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize("option", [["-o", "json"], ["-ojson"], ["--output", "json"], ["--output=json"]])
def test_errors_as_json(agh: Agh, option: list[str]) -> None:
    result = agh("session", "status", "nope", *option, code=None)
    error = error_of(result, "session_not_found", 4)
    assert error == {
        "code": "session_not_found",
        "message": "no session matches 'nope'",
        "hint": "agh session list --all",
        "details": {},
    }
    assert result.stderr.count("\n") == 1
    lines = agh("session", "status", "nope", "-o", "jsonl", code=4)
    assert lines.stderr == result.stderr


@pytest.mark.parametrize("args", [["session", "events", "--", "-x"], ["session", "events", "-f", "x"]])
def test_an_id_is_not_an_option(agh: Agh, args: list[str]) -> None:
    message_of(agh(*args, code=4))


def test_a_home_that_is_not_private(agh: Agh, home: Home) -> None:
    home.session()
    home.path.chmod(0o777)
    error = error_of(agh("session", "list", "-o", "json", code=None), "home_unsafe", 5)
    assert error["hint"] == f"chmod 700 {home.path}"


def test_a_home_that_is_a_file(agh: Agh, home: Home) -> None:
    home.path.write_text("x")
    error_of(agh("session", "list", "-o", "json", code=None), "home_unsafe", 5)
    home.path.unlink()
    home.path.mkdir(0o700)
    (home.path / "sessions").write_text("x")
    result = agh("session", "list", code=None)
    assert result.returncode not in (1, 70), result.stderr


@pytest.mark.parametrize("command", READING[1:7], ids=" ".join)
def test_nothing_is_made_by_reading(agh: Agh, home: Home, tmp_path: Path, command: list[str]) -> None:
    message_of(agh(*command, code=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["user"]
    assert list((tmp_path / "user").iterdir()) == []


@pytest.mark.parametrize("command", ["run", "session prompt"])
def test_without_a_prompt_the_hint_is_the_help_of_that_command(agh: Agh, command: str) -> None:
    result = agh(*command.split(), *(["@last"] if command == "session prompt" else []), code=2)
    assert result.stderr.splitlines()[-1] == f"hint: agh {command} --help"
