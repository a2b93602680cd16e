"""The manual: one page of section 1 for every command."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

from agh.cli.tree import commands, plugins_of_commands, short_names
from tools.facts import ABOUT, ENVIRONMENT, EXITS, EXITS_OF, FILES
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
    more = f"\n\nThis command comes with the `{plugin}` plugin." if plugin else ""
    about = f"\n\n{ABOUT.strip()}" if not path else ""
    help = inspect.cleandoc(command.help or "") + about + more
    return header(title(path), 1) + "".join(
        (
            section("NAME", f"{escape(title(path))} \\- {escape(_summarise(command))}"),
            section("SYNOPSIS", _format_synopsis(name, command)),
            section("EXAMPLES", verbatim("\n".join(examples(command)))),
            section("DESCRIPTION", paragraphs(help)),
            section("COMMANDS", _format_commands(path, command)),
            section("SHORT FORMS", _format_short(command) if not path else ""),
            section("OPTIONS", _format_options(command)),
            section("PROMISES", promises() if not path else ""),
            section("EXIT STATUS", _format_exits() if not path else ""),
            section("FILES", _format_files() if not path else ""),
            section("ENVIRONMENT", _format_environment() if not path else ""),
            section("SEE ALSO", _format_see_also(path)),
        )
    )


def examples(command: click.Command) -> list[str]:
    """Return the command lines in the epilog."""
    text = re.sub(r"^Examples?(?: \([^)]*\))?:\s*", "", (command.epilog or "").lstrip("\b\n"))
    return [line.strip() for line in text.splitlines() if "agh" in line]


def promises() -> str:
    """Format the promises of the README without the names of their tests, and what is not promised."""
    text = re.sub(r"\s*`tests/[^`]+`,?", "", (MAN.parent / "README.md").read_text())
    body = text.partition("\n## Promises\n")[2].partition("\n## ")[0].strip()
    body = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", body)
    numbered = re.findall(r"^(\d+)\. ((?:.+\n?(?!\d+\. ))+)", body, flags=re.M)
    return "\n".join(f".IP {number}. 4\n{prose(promise)}" for number, promise in numbered) + (
        "\n.PP\n" + paragraphs(body[body.index("Not promised") :])
    )


def _summarise(command: click.Command) -> str:
    first = re.split(r"(?<=[.:])\s(?![^(]*\))|\n\s*\n", inspect.cleandoc(command.help or ""))[0]
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


def _format_exits() -> str:
    """List the exit statuses, and the commands in which one of them means something else."""
    exceptions: dict[int, str] = {}
    for path, meanings in EXITS_OF.items():
        for number, meaning in meanings.items():
            exceptions[number] = exceptions.get(number, "") + f" In {bold(title(path))}(1): {prose(meaning)}"
    return tagged(
        [
            (bold(str(number)), prose(meaning) + exceptions.get(number, ""))
            for number, meaning in EXITS.items()
        ]
    )


def _format_files() -> str:
    return tagged([(italic(name), prose(meaning)) for name, meaning in FILES.items()])


def _format_environment() -> str:
    return tagged([(bold(name), prose(meaning)) for name, meaning in ENVIRONMENT.items()])


def _format_see_also(path: tuple[str, ...]) -> str:
    """Name the page above, the page with what all commands share, and the topics."""
    if path:
        shared = f"{bold('agh')}(1) has the exit statuses, files and environment variables of all commands."
        parents = [f"{bold(title(path[:-1]))}(1)"] if len(path) > 1 else []
        return f"{shared}\n.PP\n{', '.join([*parents, *_topics()])}"
    return ", ".join(_topics())


def _topics() -> list[str]:
    pages = sorted([*MAN.glob("man7/*.7"), *MAN.glob("man5/*.5")])
    return [f"{bold(page.stem)}({page.suffix[1:]})" for page in sorted(pages, key=lambda page: page.stem)]
