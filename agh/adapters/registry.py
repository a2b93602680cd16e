"""Finding plugins and what they offer.

Entry points are read from `*.dist-info/entry_points.txt` directly: importlib.metadata costs more than
a whole command. A plugin that fails on import is named in a warning and skipped; it never breaks a
command. `AGH_PLUGINS=a,b` loads only those, `AGH_PLUGINS=` none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from agh.adapters.agents import AgentRecord, record
from agh.errors import AgentNotFound

GROUP = "[agh]"
warn: Callable[[str], None] = lambda text: print(f"agh: {text}", file=sys.stderr)  # noqa: E731


class EntryPoint(NamedTuple):
    name: str
    module: str
    distribution: str


def entry_points() -> list[EntryPoint]:
    """Every plugin that is installed and wanted, by name; the first on the path wins."""
    wanted = os.environ.get("AGH_PLUGINS")
    allowed = None if wanted is None else {name.strip() for name in wanted.split(",")}
    found: dict[str, EntryPoint] = {}
    for directory in dict.fromkeys(sys.path):
        for point in _in_directory(directory):
            if allowed is None or point.name in allowed:
                found.setdefault(point.name, point)
    return sorted(found.values())


@cache
def manager() -> Any:
    """The plugin manager, with every plugin that could be loaded."""
    import pluggy

    from agh.adapters import hookspecs

    made = pluggy.PluginManager("agh")
    made.add_hookspecs(hookspecs)
    for point in entry_points():
        try:
            made.register(import_module(point.module), point.name)
        except Exception as error:
            warn(f"plugin {point.name} ({point.distribution}) is skipped: {type(error).__name__}: {error}")
    return made


@cache
def agents() -> dict[str, AgentRecord]:
    """Every agent, by name."""
    found: dict[str, AgentRecord] = {}
    for name, plugin in manager().list_name_plugin():
        offer = getattr(plugin, "agh_register_agents", None)
        if offer is None:
            continue
        try:
            offer(lambda given, name=name: _keep(found, record(given, f"plugin {name}")))
        except Exception as error:
            warn(f"plugin {name}: its agents are skipped: {error}")
    return found


def agent(name: str) -> AgentRecord:
    try:
        return agents()[name]
    except KeyError:
        raise AgentNotFound(name, known=sorted(agents())) from None


def default_agent() -> AgentRecord:
    """The agent of a session for which none was named: the first that is installed, at last the echo."""
    known = agents()
    real = [one for one in known.values() if one.name != "echo" and one.path()]
    chosen = real[0] if real else known.get("echo")
    if chosen is None:
        raise AgentNotFound("(none is installed)", hint="pip install agh-echo, or name one with --command")
    return chosen


def _keep(found: dict[str, AgentRecord], made: AgentRecord) -> None:
    found.setdefault(made.name, made)


def _in_directory(directory: str) -> Iterator[EntryPoint]:
    try:
        names = [name for name in os.listdir(directory or ".") if name.endswith(".dist-info")]
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(directory, name, "entry_points.txt"), encoding="utf-8") as file:
                text = file.read()
        except OSError:
            continue
        if GROUP in text:
            yield from _parse(text, name.removesuffix(".dist-info"))


def _parse(text: str, distribution: str) -> Iterator[EntryPoint]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == GROUP and "=" in line:
            name, _, module = line.partition("=")
            yield EntryPoint(name.strip(), module.strip(), distribution)
