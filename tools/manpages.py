"""The manual: one page of section 1 for every command."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import click

from agh import errors
from agh.cli.tree import commands, plugins_of_commands, short_names
from agh.config import SETTINGS
from tools.facts import (
    ABOUT,
    ENVIRONMENT,
    EXITS,
    EXITS_OF,
    FILES,
    FILES_OF,
    FOR_AGENTS,
    OF_KEEPERS,
)
from tools.roff import bold, escape, header, italic, paragraphs, prose, section, tagged, verbatim

MAN = Path(__file__).parent.parent / "man"


def manual(root: click.Group) -> dict[str, str]:
    """Return every page of section 1 by its file name; raise ValueError if a command lacks help."""
    owners = plugins_of_commands()
    if gaps := help_gaps(root):
        raise ValueError("there is nothing to write about:\n" + "\n".join(gaps))
    return {f"{title(path)}.1": page(path, command, owners) for path, command in commands(root)}


def help_gaps(root: click.Group) -> list[str]:
    """List commands and options that lack help, and commands that lack an example."""
    gaps = []
    for path, command in commands(root):
        name = " ".join(("agh", *path))
        gaps += [f"{name}: no help"] * (not command.help)
        gaps += [f"{name}: no example in its epilog"] * (not examples(command))
        options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
        gaps += [f"{name} {option.opts[0]}: no help" for option in options if not option.help]
    return gaps


def title(path: tuple[str, ...]) -> str:
    return "-".join(("agh", *path))


def page(path: tuple[str, ...], command: click.Command, owners: dict[str, str]) -> str:
    """Format the page of one command, with the sections in the order in which readers look for them."""
    name = " ".join(("agh", *path))
    plugin = owners.get(path[0], "") if path else ""
    more = f"\n\nThis command comes with the plugin `{plugin}`." if plugin else ""
    about = f"\n\n{ABOUT.strip()}" if not path else ""
    help = inspect.cleandoc(command.help or "").replace("\b\n", "") + about + more
    return header(title(path), 1) + "".join(
        (
            section("NAME", f"{escape(title(path))} \\- {escape(_summarise(command))}"),
            section("SYNOPSIS", _format_synopsis(name, command)),
            section("DESCRIPTION", paragraphs(help)),
            section("COMMANDS", _format_commands(path, command)),
            section("SHORT FORMS", _format_short(command) if not path else ""),
            section("OPTIONS", _format_options(command)),
            section("SETTINGS", _format_settings() if path in ((), ("config",)) else ""),
            section("PROMISES", promises() if not path else ""),
            section("EXIT STATUS", _format_exits(path, command)),
            section("FILES", _format_files(path)),
            section("ENVIRONMENT", _format_environment(path)),
            section("EXAMPLES", verbatim("\n".join(examples(command)))),
            section("SEE ALSO", _format_see_also(path)),
        )
    )


def examples(command: click.Command) -> list[str]:
    """Return the command lines in the epilog."""
    text = re.sub(r"^Examples?(?: \([^)]*\))?:\s*", "", (command.epilog or "").lstrip("\b\n"))
    return [line.strip() for line in text.splitlines() if "agh" in line]


def promises() -> str:
    """Format the promises of the README, including what is not promised."""
    text = (MAN.parent / "README.md").read_text()
    body = text.partition("\n## Promises\n")[2].partition("\n## ")[0].strip()
    numbered = re.findall(r"^(\d+)\. ((?:.+\n?(?!\d+\. ))+)", body, flags=re.M)
    return "\n".join(f".IP {number}. 4\n{prose(promise)}" for number, promise in numbered) + (
        "\n.PP\n" + paragraphs(body[body.index("Not promised") :])
    )


def _summarise(command: click.Command) -> str:
    first = re.split(r"(?<=[.:])\s|\n\s*\n", inspect.cleandoc(command.help or ""))[0]
    return " ".join(first.split()).rstrip(".:")


def _format_synopsis(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    pieces = [italic(piece) for piece in command.collect_usage_pieces(context)]
    return f"{bold(name)} {' '.join(pieces)}"


def _format_commands(path: tuple[str, ...], command: click.Command) -> str:
    if not isinstance(command, click.Group):
        return ""
    children = [
        (child_path, child)
        for child_path, child in commands(command, path)
        if len(child_path) == len(path) + 1
    ]
    return tagged(
        [(f"{bold(title(child_path))}(1)", escape(_summarise(child) + ".")) for child_path, child in children]
    )


def _format_short(root: click.Command) -> str:
    """List the second names of commands; their pages are those of the long forms."""
    assert isinstance(root, click.Group)
    return tagged(
        [
            (bold(f"agh {name}"), f"The same command as {bold(title(tuple(path.split())))}(1).")
            for name, path in short_names(root).items()
        ]
    )


def _format_options(command: click.Command) -> str:
    context = click.Context(command, help_option_names=["-h", "--help"])
    terms = []
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            terms.append((_format_option(option, context), _explain_option(option)))
    return tagged(terms)


def _format_option(option: click.Option, context: click.Context) -> str:
    names = ", ".join(bold(name) for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    choice = isinstance(option.type, click.Choice) and not option.metavar
    return f"{names} {italic((option.name or '').upper() if choice else option.make_metavar(context))}"


def _explain_option(option: click.Option) -> str:
    text = prose(option.help or "")
    if isinstance(option.type, click.Choice):
        text += f" One of {', '.join(bold(str(value)) for value in option.type.choices)}."
    if option.show_default and isinstance(option.default, str | int) and not option.is_flag:
        text += f" The default is {bold(str(option.default))}."
    return text


def _format_settings() -> str:
    terms = [
        (
            bold(name),
            prose(
                f"{setting.meaning[0].upper()}{setting.meaning[1:]}. "
                f"The default is {_format_default(setting.default)}."
            ),
        )
        for name, setting in SETTINGS.items()
    ]
    return f"{prose('Keys of `config.toml`; a dot stands for a table.')}\n{tagged(terms)}"


def _format_default(default: object) -> str:
    return f"`{default}`" if default not in ("", []) else "empty"


def _format_exits(path: tuple[str, ...], command: click.Command) -> str:
    """List the exit statuses, without those of a keeper if the command never talks to one."""
    statuses = set(EXITS)
    module = command.callback.__module__ if command.callback else ""
    if module.startswith("agh.cli.") and not isinstance(command, click.Group):
        sources = _collect_sources(module)
        if "agh.keeper" not in sources:
            classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "exit")]
            raised = {cls.exit for cls in classes if re.search(rf"\b{cls.__name__}\b", sources)}
            statuses -= set(OF_KEEPERS) - raised
    meanings = EXITS | EXITS_OF.get(path, {})
    return tagged([(bold(str(number)), prose(meanings[number])) for number in sorted(statuses)])


def _collect_sources(module: str) -> str:
    """Return the source of a command's module and of all it imports from agh.cli and agh.sessions."""
    texts: dict[str, str] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        if name not in texts:
            texts[name] = inspect.getsource(import_module(name))
            pending += re.findall(r"^\s*from (agh\.(?:cli|sessions)\.[\w.]+) import", texts[name], flags=re.M)
    return "\n".join(texts.values())


def _format_files(path: tuple[str, ...]) -> str:
    files = FILES_OF.get(path[0], FILES) if path else FILES
    return tagged([(italic(name), prose(meaning)) for name, meaning in files.items()])


def _format_environment(path: tuple[str, ...]) -> str:
    variables = ENVIRONMENT | (FOR_AGENTS if not path else {})
    return tagged([(bold(name), prose(meaning)) for name, meaning in variables.items()])


def _format_see_also(path: tuple[str, ...]) -> str:
    parents = [title(path[:-1])] if path else []
    topics = sorted(page.stem for page in MAN.glob("man7/*.7"))
    pages = [f"{bold(parent)}(1)" for parent in parents] + [f"{bold(topic)}(7)" for topic in topics]
    return ", ".join(pages)
