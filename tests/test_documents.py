"""The manual and the completions: complete, up to date and well formed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import click
import pytest
from agh_places import place

from agh import errors
from agh.adapters import hookspecs
from agh.adapters.agents import AgentRecord
from agh.cli.main import root
from agh.cli.tree import commands
from agh.config import SETTINGS, examine, own_file
from agh.core import rules
from agh.core.events import TYPES
from agh.core.settings import mcp
from agh.core.settings.hooks import HOOK_KEYS
from agh.core.settings.notify import Notify
from tools import manpages, settings
from tools.__main__ import MAN, ROOT
from tools.facts import EXITS

PAGES = sorted(path for path in MAN.rglob("*") if path.is_file())
SECTIONS = ("NAME", "SYNOPSIS", "EXAMPLES", "DESCRIPTION", "OPTIONS")
SHARED = ("EXIT STATUS", "FILES", "ENVIRONMENT")  # by all commands, so only agh(1) has them
LONGEST_MEDIAN = 64  # lines of a page's source


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
    assert [title for title in titles if title in SHARED] == ([] if path else list(SHARED))
    assert not path or "agh(1) has the exit statuses" in text_of(MAN / "man1" / f"{manpages.title(path)}.1")


def test_pages_are_short() -> None:
    lengths = [len(page.read_text().splitlines()) for page in MAN.glob("man1/*.1")]
    assert median(lengths) <= LONGEST_MEDIAN


def test_every_command_and_option_says_what_it_does() -> None:
    assert manpages.help_gaps(root) == []


def test_examples_are_on_lines_of_their_own() -> None:
    """Without \\b, click joins the lines of an epilog."""
    epilogs = [(" ".join(path), command.epilog or "") for path, command in commands(root)]
    assert [name for name, epilog in epilogs if "\n" in epilog.strip() and "\b" not in epilog] == []


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


def examples_of_documents() -> Iterator[str]:
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = re.findall(r"^```(?:sh|shell)\n(.*?)^```$", document.read_text(), flags=re.M | re.S)
        lines = [line.strip() for block in blocks for line in block.splitlines()]
        yield from (line for line in lines if line.startswith("agh "))


def examples() -> list[str]:
    lines = [line for _, command in commands(root) for line in manpages.examples(command)]
    return [*lines, *examples_of_pages(), *examples_of_documents()]


@pytest.mark.parametrize("line", examples())
def test_an_example_is_a_command_that_exists(line: str) -> None:
    """Its options too; what it does is left to the tests of the command."""
    called = list(invocations(line))
    assert called
    for words in called:
        command: click.Command = root
        context = click.Context(root, **root.context_settings)  # click keeps the help option it makes here
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
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
    fields = set(AgentRecord._fields) - {"source"}
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
    assert {int(number) for number in terms(MAN / "man1/agh.1", "EXIT STATUS")} == used


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_a_type_and_an_example_that_works(name: str) -> None:
    file = Path(own_file())
    file.parent.mkdir(exist_ok=True)
    file.write_text(settings.example_of(name))
    values, problems = examine(str(file))
    assert problems == []
    assert list(values) == [name]
    assert values[name] != SETTINGS[name].default
    assert settings.type_of(name)
    assert name in terms(MAN / "man5/agh-config.5", "SETTINGS")


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("MCP SERVERS", mcp._STDIO | mcp._REMOTE),
        ("PERMISSION RULES", {"decision", *rules.PATTERNS}),
        ("HOOKS", set(HOOK_KEYS)),
        ("NOTIFICATIONS", set(Notify._fields)),
        ("PLACES", set(place._KEYS)),
    ],
)
def test_every_key_of_a_table_is_documented(title: str, keys: set[str]) -> None:
    assert terms(MAN / "man5/agh-config.5", title) == keys


def test_every_variable_of_the_environment_is_documented() -> None:
    used = set()
    for path in (ROOT / "agh").rglob("*.py"):
        used |= set(re.findall(r"\bAGH_[A-Z]+(?:_[A-Z]+)*\b", path.read_text()))
    assert used
    assert used <= terms(MAN / "man1/agh.1", "ENVIRONMENT")


def test_every_page_is_where_man_looks() -> None:
    assert [page for page in PAGES if page.parent.name != f"man{page.suffix[1:]}"] == []


def test_every_page_that_is_named_exists() -> None:
    own = {(page.stem, page.suffix[1:]) for page in [*PAGES, *ROOT.glob("plugins/*/man/**/*.[157]")]}
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
