"""The manual and the completions: complete, up to date and well formed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from agh import errors
from agh.adapters import hookspecs
from agh.adapters.agents import AgentRecord
from agh.cli.main import root
from agh.cli.tree import commands
from agh.core.events import TYPES
from tools import manpages
from tools.__main__ import MAN, ROOT
from tools.facts import EXITS

PAGES = sorted(path for path in MAN.rglob("*") if path.is_file())
SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "ENVIRONMENT", "EXAMPLES")


def text_of(page: Path) -> str:
    """Return a page's words, without roff."""
    return re.sub(r"\\f[BIR]|\\&", "", page.read_text()).replace(r"\-", "-").replace(r"\(ti", "~")


def terms(page: Path, title: str) -> set[str]:
    """Return the terms that a section explains."""
    section = text_of(page).partition(f"\n.SH {title}\n")[2].partition("\n.SH ")[0]
    tagged = re.findall(r"^\.TP\n(?:\.BR? )?(.*)$", section, flags=re.M)
    return set(re.findall(r"[\w.]+", " ".join(tagged)))


def test_they_are_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tools", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, f"make docs is due for:\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("path", [path for path, _ in commands(root)], ids=" ".join)
def test_every_command_has_a_page(path: tuple[str, ...]) -> None:
    page = (MAN / "man1" / f"{manpages.title(path)}.1").read_text()
    titles = re.findall(r"^\.SH (.*)$", page, flags=re.M)
    assert [title for title in titles if title in SECTIONS] == list(SECTIONS)


def test_every_command_and_option_says_what_it_does() -> None:
    assert manpages.help_gaps(root) == []


def test_silence_is_heard() -> None:
    group = click.Group("agh", help="All.", epilog="Example:  agh new")
    group.add_command(click.Command("new", epilog="See the manual.", params=[click.Option(["--so"])]))
    group.add_command(click.Command("old", help="Be old.", epilog="Example:"))
    silent = ["agh new: no help", "agh new: no example in its epilog", "agh new --so: no help"]
    silent.append("agh old: no example in its epilog")
    assert manpages.help_gaps(group) == silent
    with pytest.raises(ValueError, match="agh old: no example"):
        manpages.manual(group)


def invocations(line: str) -> Iterator[list[str]]:
    """Yield the words after `agh` of each time that a line of shell calls it."""
    words: list[str] = []
    for word in [*shlex.shlex(line, posix=True, punctuation_chars=True), ";"]:
        if word[0] not in "();<>|&":
            words.append(word)
            continue
        if "agh" in words[:1]:
            yield words[1:]
        words = []


def examples_of_pages() -> Iterator[str]:
    for page in sorted(MAN.glob("man7/*.7")):
        text = text_of(page).replace(r"\(aq", "'")
        yield from re.findall(r"^\.B (agh .*)$", text, flags=re.M)
        for block in re.findall(r"^\.nf\n(.*?)^\.fi$", text, flags=re.M | re.S):
            yield from re.findall(r"^(agh .*)$", block, flags=re.M)


def examples() -> list[str]:
    lines = [line for _, command in commands(root) for line in manpages.examples(command)]
    blocks = re.findall(r"^```(?:sh|shell)\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    readme = [line.strip() for block in blocks for line in block.splitlines()]
    return [*lines, *examples_of_pages(), *(line for line in readme if line.startswith("agh "))]


@pytest.mark.parametrize("line", examples())
def test_an_example_is_a_command_that_exists(line: str) -> None:
    """Its options too; what it does is left to the tests of the command."""
    called = list(invocations(line))
    assert called
    for words in called:
        command: click.Command = root
        context = click.Context(root, **root.context_settings)  # click keeps the help option it makes here
        while isinstance(command, click.Group) and words:
            name, *words = words
            subcommand = command.get_command(context, name)
            assert subcommand is not None, name
            command, context = subcommand, click.Context(subcommand, parent=context)
        command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("line", ["agh nonsense", "agh session list --nonsense", "x | agh run - --nonsense"])
def test_a_wrong_example_is_seen(line: str) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        test_an_example_is_a_command_that_exists(line)


def test_every_hook_is_documented() -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("agh_")}
    documented = set(re.findall(r"^\.SS (agh_\w+)\(", (MAN / "man7/agh-plugins.7").read_text(), flags=re.M))
    assert documented == hooks


def test_every_field_of_an_agent_is_documented() -> None:
    fields = set(AgentRecord.__dataclass_fields__) - {"source"}
    assert terms(MAN / "man7/agh-plugins.7", "AGENTS") == fields


def test_every_type_of_event_is_documented() -> None:
    assert terms(MAN / "man7/agh-events.7", "TYPES") == set(TYPES)


def test_every_marker_is_documented() -> None:
    source = "".join(path.read_text() for path in (ROOT / "agh").rglob("*.py"))
    used = set(re.findall(r'\bmarker\(\s*"(\w+)"', source))
    assert used
    assert used <= terms(MAN / "man7/agh-events.7", "MARKERS")


def exits(kind: type[errors.AghError] = errors.AghError) -> Iterator[int]:
    yield kind.exit
    for below in kind.__subclasses__():
        yield from exits(below)


def test_every_exit_status_is_documented() -> None:
    used = {0, errors.INTERRUPTED, errors.BROKEN_PIPE, *exits()}
    assert set(EXITS) == used
    readme = (ROOT / "README.md").read_text().partition("## Exit codes")[2]
    assert {int(number) for number in re.findall(r"\b\d+\b", readme.partition("\n## ")[0])} == used


@pytest.mark.parametrize(
    ("page", "possible"),
    [
        ("run", {"3", "6", "7", "9"}),
        ("session-prompt", {"3", "6", "7", "9"}),
        ("session-pause", {"3", "6", "7", "9"}),
        ("session-wait", {"3", "7"}),
        ("session-events", set()),
    ],
)
def test_a_page_has_the_exit_statuses_that_can_happen(page: str, possible: set[str]) -> None:
    listed = terms(MAN / f"man1/agh-{page}.1", "EXIT STATUS")
    assert {"0", "1", "2", "4", "8", "130", "141"} <= listed
    assert {"3", "6", "7", "9"} & listed == possible


def test_every_variable_of_the_environment_is_documented() -> None:
    used = set()
    for path in (ROOT / "agh").rglob("*.py"):
        used |= set(re.findall(r"\bAGH_[A-Z]+(?:_[A-Z]+)*\b", path.read_text()))
    assert used
    assert used <= terms(MAN / "man1/agh.1", "ENVIRONMENT")


def test_the_manual_is_well_formed() -> None:
    if shutil.which("man") is None:
        pytest.skip("no man here")
    result = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", *map(str, PAGES)],
        env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("x T utf8") == len(PAGES)


def test_every_page_is_where_man_looks() -> None:
    assert [page for page in PAGES if page.parent.name != f"man{page.suffix[1:]}"] == []


def test_every_page_that_is_named_exists() -> None:
    own = {(page.stem, page.suffix[1:]) for page in [*PAGES, *ROOT.glob("plugins/*/man/**/*.[17]")]}
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"\b(agh[\w-]*)\s?\((\d)\)", text_of(page)))
    assert named
    assert named <= own


def test_the_table_of_agents_is_whole() -> None:
    """`make real-agents` writes it; what it says of each is that run's word."""
    text = (ROOT / "docs" / "agents.md").read_text()
    products = re.findall(r"^\| [\w-]+ \| `[\w@/-]+` \| [\w.-]+ \|", text, re.MULTILINE)
    rows = re.findall(r"^\| \*\*[\w -]+\*\*: .* \|$", text, re.MULTILINE)
    assert (len(products), len(rows)) == (8, 18)
    assert {row.count(" | ") for row in rows} == {8}
    assert "| agh" not in text, "a fault of agh"
