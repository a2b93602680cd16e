"""The commands as data: what the Tab key needs to know of the click tree.

A table maps a command's path ("session resume", "" for agh itself) to its help, its options and what its
arguments take. The table of agh and of the plugins that come with it is `commands.json`, made by `make docs`,
so that completion need not import click. Beside it are the second names of commands.

What a parameter takes is session, agent, catalog (an agent to install), workspace, prompt (a text for the
session before it), file, dir, nothing that is known (""), nothing at all (None: a flag), or a list of values
with their descriptions. It follows from its type, or from its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NotRequired, TypedDict

import click

from agh.adapters.calls import PerPlugin
from agh.adapters.registry import call_hook
from agh.config import PERMISSION_MODES, SETTINGS
from agh.core.status import BADGES, STATES

Takes = str | list[tuple[str, str]] | None
# By the first word of the command ("" is any) and the name of the parameter.
BY_NAME: dict[tuple[str, str], Takes] = {
    ("", "id"): "session",
    ("", "ids"): "session",
    ("session", "text"): "prompt",
    ("", "agent"): "agent",
    ("", "agents"): "agent",
    ("agent", "name"): "agent",
    ("agent", "names"): "agent",
    ("agent", "entry"): "catalog",
    ("compare", "words"): "agent",
    ("", "workspace"): "workspace",
    ("config", "key"): [(name, setting.meaning) for name, setting in SETTINGS.items()],
    ("", "permissions"): [(mode, "") for mode in PERMISSION_MODES],
    ("", "state"): [(state, "") for state in STATES],
    ("", "badge"): [(badge, "") for badge in BADGES],
}


class Option(TypedDict):
    names: list[str]
    help: str
    takes: Takes
    many: bool


class Argument(TypedDict):
    takes: Takes
    many: bool


class Entry(TypedDict):
    help: str
    options: list[Option]
    arguments: list[Argument]
    plugin: NotRequired[str]  # the entry point that offers the command


Table = dict[str, Entry]


def commands(
    group: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that is not hidden, with its path, a group before its commands."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield from commands(command, (*path, name))


def describe(root: click.Group) -> Table:
    """Make the table of every command below `root`."""
    owners, table = plugins_of_commands(), {}
    for path, command in commands(root):
        entry = _entry(path, command)
        if path and path[0] in owners:
            entry["plugin"] = owners[path[0]]
        table[" ".join(path)] = entry
    return table


def short_names(root: click.Group) -> dict[str, str]:
    """Map every second name of a command to its path in the table ("ls" to "session list")."""
    paths = {command: " ".join(path) for path, command in commands(root)}
    names = {}
    for path, group in commands(root):
        for name in getattr(group, "short", ()):
            command = (
                group.get_command(click.Context(group), name) if isinstance(group, click.Group) else None
            )
            if command is not None:
                names[" ".join((*path, name))] = paths[command]
    return names


def plugins_of_commands() -> dict[str, str]:
    """Map the name of each plugin command to its plugin."""
    groups: dict[str, click.Group] = {}
    own_group = PerPlugin(lambda plugin: groups.setdefault(plugin, click.Group()))
    # A failure is named by the registry when it adds the commands.
    call_hook("agh_register_commands", lambda run: None, group=own_group)
    owners: dict[str, str] = {}
    for plugin, group in groups.items():
        owners |= {name: plugin for name in group.commands if name not in owners}
    return owners


def _entry(path: tuple[str, ...], command: click.Command) -> Entry:
    context = click.Context(command, help_option_names=["-h", "--help"])
    entry: Entry = {"help": command.get_short_help_str(200), "options": [], "arguments": []}
    for parameter in command.get_params(context):
        takes = _takes(path[0] if path else "", parameter)
        many = parameter.nargs == -1 or parameter.multiple
        if isinstance(parameter, click.Option):
            if not parameter.hidden:
                for names in filter(None, (parameter.opts, parameter.secondary_opts)):
                    help = " ".join((parameter.help or "").split())
                    entry["options"].append({"names": names, "help": help, "takes": takes, "many": many})
        else:
            entry["arguments"].append({"takes": takes, "many": many})
    return entry


def _takes(first: str, parameter: click.Parameter) -> Takes:
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return None
    if isinstance(parameter.type, click.Choice):
        return [(str(value), "") for value in parameter.type.choices]
    for key in ((first, parameter.name or ""), ("", parameter.name or "")):
        if key in BY_NAME:
            return BY_NAME[key]
    if isinstance(parameter.type, click.Path) and not parameter.type.file_okay:
        return "dir"
    is_file = isinstance(parameter.type, click.Path | click.File) or "FILE" in (parameter.metavar or "")
    return "file" if is_file else ""
