"""Short verbs, `agh help`, and what a wrong word is answered with."""

from __future__ import annotations

import os
import re
import shlex

import click
import pytest

from agh import __version__
from agh.cli import complete
from agh.cli.guide.suggestion import MEANINGS
from agh.cli.main import SHORT, root
from agh.cli.session.group import session
from agh.cli.tree import commands, short_names
from tests.support.build import Home, conversation
from tests.support.imports import HEAVY, below, imported
from tests.support.output import error_of, message_of
from tests.support.program import Agh, in_process


def command(*path: str) -> click.Command | None:
    group: click.Command | None = root
    for name in path:
        assert isinstance(group, click.Group)
        group = group.get_command(click.Context(group), name)
    return group


@pytest.mark.parametrize("verb", SHORT)
def test_a_short_verb_is_the_same_command(verb: str) -> None:
    assert command(verb) is command("session", SHORT[verb])
    assert short_names(root)[verb] == f"session {SHORT[verb]}"
    usage = in_process(verb, "--help").stdout
    assert usage.startswith(f"Usage: agh {verb} ")
    assert usage.partition("\n")[2] == in_process("session", SHORT[verb], "--help").stdout.partition("\n")[2]


def test_short_verbs_do_what_the_long_ones_do(agh: Agh, home: Home) -> None:
    home.session(conversation(), name="talk")
    for verb, args in {"ls": ["--all"], "list": ["--all"], "log": ["talk"], "transcript": ["talk"]}.items():
        assert agh(verb, *args).stdout == agh("session", SHORT[verb], *args).stdout != ""


def test_a_short_verb_imports_no_more_than_the_long_one(home: Home) -> None:
    modules = imported("ls")
    assert "agh.sessions.listing" in modules
    assert modules <= imported("session", "list")
    assert [name for name in sorted(modules) if below(name, HEAVY)] == []


def test_tab_knows_the_short_verbs(home: Home) -> None:
    home.directory(name="fix-login")
    assert set(SHORT) <= dict(complete.candidates([""])).keys()
    assert "fix-login" in dict(complete.candidates(["log", "fix"]))
    assert "--status" in dict(complete.candidates(["ls", "--statu"]))
    assert set(dict(complete.candidates(["session", "l"]))) == {"last", "list", "log", "ls"}


def test_tab_after_help_offers_commands_only(home: Home) -> None:
    home.directory(name="fix-login")
    assert {"prompt", "session", "ls"} <= dict(complete.candidates(["help", ""])).keys()
    assert [word for word, _ in complete.candidates(["help", "session", "queu"])] == ["queue"]
    assert list(complete.candidates(["help", "prompt", ""])) == []


def test_version_is_a_command_too(agh: Agh, home: Home) -> None:
    for args in (["version"], ["--version"], ["-V"]):
        assert agh(*args).stdout == f"agh {__version__}\n"
    assert "click" not in imported("version")
    assert not home.path.exists()


@pytest.mark.parametrize(
    "words",
    [[], ["prompt"], ["session"], ["session", "queue", "list"], ["ls"], ["help"]],
    ids=" ".join,
)
def test_help_of_a_command(agh: Agh, words: list[str]) -> None:
    assert agh("help", *words).stdout == agh(*words, "--help").stdout


def test_help_of_a_wrong_word(agh: Agh) -> None:
    result = agh("help", "sesion", "lst", code=2)
    assert result.stderr.splitlines()[-1] == "hint: agh session list"


@pytest.mark.parametrize(
    ("line", "hint"),
    {
        "sesion lst": "agh session list",
        "logs": "agh log",
        "logs fix-login": "agh log fix-login",
        "ps -a": "agh list -a",
        "ps --quiet": "agh list",
        "logs -f fix-login": "agh log -f fix-login",
        "login": "agh agent doctor",
        "'fix the login test'": "agh run 'fix the login test'",
        "rm fix-login": "agh session delete fix-login",
        "kill fix-login": "agh stop fix-login",
        "delete x": "agh session delete x",
        "fork x": "agh session fork x",
        "forkk x": "agh session fork x",
        "exec x 'two words'": "agh prompt x 'two words'",
        "start": "agh new",
        "session run hello": "agh run hello",
        "session rm x": "agh session delete x",
        "session atach x": "agh session attach x",
        "agent ls": "agh agent list",
        "agent lst": "agh agent list",
        "agents": "agh agent list",
        "workspace rm shop": "agh workspace remove",
        "session queue lst x": "agh session queue list",
        "plugin list": "agh plugins list",
        "diff": "agh --help",
        "session xyzzy": "agh session --help",
    }.items(),
)
def test_a_wrong_word_suggests_the_right_command(line: str, hint: str) -> None:
    result = in_process(*shlex.split(line))
    assert result.returncode == 2
    assert " has no command " in message_of(result)
    assert result.stderr.splitlines()[-1] == f"hint: {hint}"


def test_every_word_of_the_table_leads_to_a_command() -> None:
    top = {name for path, _ in commands(root) for name in path} | {*SHORT}
    assert [word for word, names in MEANINGS.items() if not {*" ".join(names).split()} & top] == []
    exact = {*root.list_commands(click.Context(root)), *SHORT}
    assert [word for word in MEANINGS if word in exact - {"ls"}] == []


@pytest.mark.parametrize("path", [path for path, _ in commands(root)], ids=" ".join)
def test_a_summary_fits_on_a_line_of_80_columns(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = command(*path)
    assert found is not None
    summary = found.get_short_help_str(1000)
    assert 0 < len(summary) <= 63, summary
    if isinstance(found, click.Group):
        monkeypatch.setenv("COLUMNS", "80")
        printed = in_process(*path, "--help").stdout
        assert max(map(len, printed.partition("Example")[0].splitlines())) <= 80
        assert "..." not in re.sub(r"^Usage.*\n", "", printed)


def test_the_commands_on_sessions_are_in_sections() -> None:
    printed = in_process("session", "--help").stdout
    titles = re.findall(r"^(\S.*):$", printed, flags=re.M)
    assert titles == [
        "Options",
        "Talk to a session",
        "Look at sessions",
        "Manage what runs",
        "Keep and clean up",
    ]
    for name in session.list_commands(click.Context(session)):
        assert len(re.findall(rf"^  {name} ", printed, flags=re.M)) == 1


@pytest.mark.parametrize("verb", ["attach", "session attach", "stop", "log", "resume", "session recap"])
def test_a_command_without_a_session_lists_the_recent_ones_here(agh: Agh, home: Home, verb: str) -> None:
    here = os.path.realpath(os.curdir)
    home.directory(
        id="sess-aaa0000000", name="old", workspace_path=here, updated_at="2026-01-01T00:00:00.000Z"
    )
    home.directory(id="sess-bbb0000000", name="fix-login", workspace_path=here)
    home.directory(id="sess-ccc0000000", name="hidden", workspace_path=here, archived=True)
    home.directory(id="sess-ddd0000000", name="elsewhere", workspace_path="/somewhere/else")
    (home.directory(id="sess-eee0000000", workspace_path=here) / "meta.json").write_text("{")
    result = agh(*verb.split(), code=2)
    first, header, *rows, hint = result.stderr.splitlines()
    assert first == f"agh: {verb.split()[-1]} needs a session. Recent ones here:"
    assert header.split() == ["NAME", "ID", "STATUS", "ACTIVE"]
    assert [row.split()[0] for row in rows] == ["fix-login", "old"]
    assert hint.startswith(f"hint: agh {verb} fix-login")


def test_without_any_session_there_is_the_command_that_makes_one(agh: Agh, home: Home) -> None:
    result = agh("attach", code=2)
    assert message_of(result) == "attach needs a session, and there is none here yet"
    assert result.stderr.splitlines()[1] == "hint: agh new"
    home.directory(workspace_path="/somewhere/else")
    assert "agh list --all" in agh("attach", code=2).stderr
    home.path.chmod(0o777)
    error_of(agh("stop", "-o", "json", code=2), "usage", 2)


def test_a_prompt_without_quotes(agh: Agh) -> None:
    for args, hint in {
        ("run", "mend", "the", "test"): "agh run 'mend the test'",
        ("prompt", "x", "mend", "the", "test"): "agh prompt x 'mend the test'",
        ("session", "prompt", "x", "mend", "it"): "agh session prompt x 'mend it'",
        ("run", "--agent", "echo", "mend", "it"): "agh run 'fix the test'",
    }.items():
        assert agh(*args, code=2).stderr.endswith(f"hint: put it in quotes: {hint}\n")
