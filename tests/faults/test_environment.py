"""Odd surroundings: closed streams, dead pipes, bare environments, other locales, full disks."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from agh import __version__
from tests.support.build import Home, conversation, says, shared_home, user
from tests.support.program import AGH, Agh, shell
from tests.support.terminal import run_on_terminal, show_on_terminal

COMMANDS = [
    ["session", "list", "--all"],
    ["session", "list", "--all", "-o", "json"],
    ["session", "status", "talk"],
    ["session", "events", "many"],
    ["session", "events", "many", "-o", "human"],
    ["session", "events", "many", "-o", "json"],
    ["session", "events", "many", "-o", "sse"],
    ["session", "events", "many", "--follow"],
    ["session", "history", "many"],
    ["session", "transcript", "many"],
    ["session", "transcript", "many", "-o", "html"],
    ["session", "recap", "many"],
    ["session", "repair", "--all", "--dry-run"],
    ["doctor"],
    ["--help"],
    ["session", "events", "--help"],
]
VERSION = ["--version"]
TEXT = "Grüße, 世界 €"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    with shared_home(tmp_path_factory) as home:
        home.session(conversation(), name="talk")
        home.session((user(f"{TEXT} {n}", turn=f"turn-{n}") for n in range(1000)), name="many")
        home.session([says(TEXT)], name="other")
        home.session(title=TEXT)
    return home


@pytest.fixture(autouse=True)
def in_shared(shared: Home, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(shared.path))


@pytest.mark.parametrize("args", [*COMMANDS, pytest.param(VERSION)], ids=" ".join)
def test_a_pipe_that_nobody_reads(args: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run([AGH, *args], stdout=writing, stderr=subprocess.PIPE, timeout=20)
    finally:
        os.close(writing)
    assert result.stderr == b""
    assert result.returncode in (0, 141)


@pytest.mark.parametrize("args", [*COMMANDS, VERSION], ids=" ".join)
def test_head_is_quiet(args: list[str]) -> None:
    result = shell('"$AGH" "$@" | head -1; echo ${PIPESTATUS[0]} >&2', *args)
    assert result.stderr in ("0\n", "141\n")
    assert result.stdout.count("\n") == 1


def test_head_of_a_long_log_ends_it_early() -> None:
    result = shell('"$AGH" session events many | head -1; echo ${PIPESTATUS[0]} >&2')
    assert json.loads(result.stdout)["sequence"] == 1
    assert result.stderr == "141\n"


@pytest.mark.parametrize(
    "args", [COMMANDS[0], COMMANDS[3], COMMANDS[10], COMMANDS[-1], VERSION], ids=" ".join
)
def test_a_full_disk_is_told_and_is_no_bug(args: list[str]) -> None:
    result = shell('"$AGH" "$@" > /dev/full', *args)
    assert result.returncode not in (0, 70)
    assert "Traceback" not in result.stderr
    assert "a bug in agh" not in result.stderr
    assert "No space left" in result.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("args", [COMMANDS[0], COMMANDS[3], COMMANDS[9], COMMANDS[-1], VERSION], ids=" ".join)
def test_closed_streams(agh: Agh, args: list[str], closed: str) -> None:
    result = shell(f'"$AGH" "$@" {closed}', *args)
    assert result.returncode == 0
    assert result.stderr == ""
    if closed in ("<&-", "2>&-"):
        assert result.stdout == agh(*args).stdout


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_an_error_that_nobody_hears(closed: str) -> None:
    assert shell(f'"$AGH" session status nope {closed}').returncode == 4
    assert shell(f'"$AGH" session status nope -o json {closed}').returncode == 4


def test_closed_streams_do_not_end_up_in_the_log(
    agh: Agh, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    directory = home.session([user("x")], state="active", stop_reason=None)
    assert shell('"$AGH" session repair "$1" <&- >&- 2>&-', directory.name).returncode == 0
    assert agh("session", "events", directory.name, "--type", "error", "-o", "human").stdout.count("\n") == 1
    assert (directory / "events.db").read_bytes().startswith(b"SQLite format 3\0")


def test_an_empty_environment(shared: Home) -> None:
    bare = {"AGH_HOME": str(shared.path)}
    for args in (
        ["session", "list", "--all"],
        ["session", "events", "other"],
        ["--version"],
        ["--help"],
        ["doctor"],
    ):
        result = subprocess.run([AGH, *args], env=bare, capture_output=True, timeout=20)
        assert (result.returncode, result.stderr) == (0, b"")
        assert result.stdout


def test_no_home_in_the_environment() -> None:
    for args in (["--version"], ["--help"], ["session", "list", "--help"]):
        result = subprocess.run([AGH, *args], env={}, capture_output=True, text=True, timeout=20)
        assert (result.returncode, result.stderr) == (0, "")
    version = subprocess.run([AGH, "--version"], env={}, capture_output=True, text=True, timeout=20)
    assert version.stdout == f"agh {__version__}\n"


def test_the_password_file_knows_the_home() -> None:
    """Only the path is asked, by the function that every command asks: nothing looks into the real home."""
    code = "from agh.home import home_path; print(home_path())"
    result = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, timeout=20)
    assert (result.stdout, result.stderr) == (f"{pwd.getpwuid(os.getuid()).pw_dir}/.agh\n", "")


def test_home_is_used_when_agh_home_is_not_set(home: Home, tmp_path: Path, shared: Home) -> None:
    (tmp_path / "user" / ".agh").symlink_to(shared.path)
    env = {"HOME": str(tmp_path / "user")}
    result = subprocess.run(
        [AGH, "session", "list", "--all"], env=env, capture_output=True, text=True, timeout=20
    )
    assert result.stdout.count("\n") == 5


@pytest.mark.parametrize(
    "setting",
    [
        {"LANG": "C"},
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "xx_YY.nonsense"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_other_locales(setting: dict[str, str]) -> None:
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}, **setting}
    for args, form in (
        (["session", "events", "other"], TEXT.encode()),  # JSON is UTF-8 whatever the locale
        (["session", "transcript", "other"], b"Gr"),
        (["session", "list", "--all"], b"Gr"),
    ):
        result = subprocess.run([AGH, *args], env=env, capture_output=True, timeout=20)
        assert (result.returncode, result.stderr) == (0, b"")
        assert form in result.stdout


@pytest.mark.parametrize("args", [COMMANDS[0], COMMANDS[3], COMMANDS[11], COMMANDS[13]], ids=" ".join)
def test_colour_on_a_terminal_only(agh: Agh, args: list[str]) -> None:
    code, printed = show_on_terminal(*args)
    assert code == 0
    assert "\x1b[" in printed
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, printed = show_on_terminal(*args, env=plain)
        assert code == 0
        assert "\x1b" not in printed
    assert "\x1b" not in agh(*args).stdout


@pytest.mark.parametrize(
    ("env", "colour"), [({"NO_COLOR": ""}, True), ({"TERM": ""}, False), ({"NO_COLOR": "0"}, False)]
)
def test_what_says_that_there_is_no_colour(env: dict[str, str], colour: bool) -> None:
    assert ("\x1b" in run_on_terminal("session", "list", "--all", env=env)[1]) is colour


def test_events_are_for_people_on_a_terminal_and_json_in_a_pipe(agh: Agh) -> None:
    _, printed = show_on_terminal("session", "events", "talk", "--last", "1", env={"NO_COLOR": "1"})
    assert "done" in printed and "{" not in printed
    assert json.loads(agh("session", "events", "talk", "--last", "1").stdout)["type"] == "done"


@pytest.mark.parametrize("columns", ["20", "40", "400", "0", "-5", "wide", ""])
def test_any_width_of_terminal(columns: str) -> None:
    for args in (["session", "list", "--all"], ["session", "events", "talk"]):
        code, printed = show_on_terminal(*args, env={"COLUMNS": columns, "NO_COLOR": "1"})
        assert code == 0, printed
        assert len(printed.splitlines()) >= 4


def read_only(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the program with the home on a file system that nobody can write to, not even root."""
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, str(home), str(AGH), *args]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_read_only_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGH_HOME", str(home.path))
    directory = home.session(conversation())
    assert read_only(home.path, "session", "rename", directory.name, "new").returncode != 0, (
        "it cannot be written"
    )
    for command in ("status", "events", "history", "transcript", "recap"):
        process = read_only(home.path, "session", command, directory.name)
        assert process.returncode == 0, process.stderr
        assert process.stdout
