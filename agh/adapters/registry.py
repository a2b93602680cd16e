"""Finding plugins and what they offer.

Entry points are read from `*.dist-info/entry_points.txt` directly: importlib.metadata costs more than
a whole command. A plugin that fails on import is named in a warning and skipped. `AGH_PLUGINS=a,b`
loads only those, `AGH_PLUGINS=` none. The built-in agents and strategies are a plugin too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from agh import config
from agh.adapters.agents import AgentRecord, from_file, record
from agh.adapters.kinds import Kind
from agh.adapters.restore import Strategy
from agh.core.suggest import closest
from agh.errors import AgentInvalid, AgentNotFound, KindUnknown, WorkspaceUntrusted
from agh.home import home_path

if TYPE_CHECKING:
    import click

    from agh.core.exchange import Exporter, Importer

GROUP = "[agh]"
ECHO = "echo"


class Plugin(NamedTuple):
    """An entry point, and what became of it."""

    name: str
    module: str
    distribution: str
    location: str
    error: str = ""


def warn(text: str) -> None:
    print(f"agh: {text}", file=sys.stderr, flush=True)


def entry_points() -> list[Plugin]:
    """Every plugin that is installed and wanted, by name; the first on the path wins."""
    wanted = os.environ.get("AGH_PLUGINS")
    allowed = None if wanted is None else {name.strip() for name in wanted.split(",")}
    found: dict[str, Plugin] = {}
    for directory in dict.fromkeys(sys.path):
        for point in _in_directory(directory):
            if allowed is None or point.name in allowed:
                found.setdefault(point.name, point)
    return sorted(found.values())


@cache
def manager() -> tuple[Any, list[Plugin]]:
    """The plugin manager with every plugin that could be loaded, and the list of all that were tried."""
    import pluggy

    from agh.adapters import builtin, hookspecs

    made = pluggy.PluginManager("agh")
    made.add_hookspecs(hookspecs)
    made.register(builtin, "built-in")
    tried = []
    for point in entry_points():
        plugin = None
        try:
            if made.has_plugin(point.name):
                raise ValueError("another plugin has this name")
            plugin = import_module(point.module)
            made.register(plugin, point.name)
            made.check_pending()
        except (Exception, SystemExit) as error:
            if plugin is not None and made.get_plugin(point.name) is plugin:
                made.unregister(name=point.name)
            point = point._replace(error=" ".join(f"{type(error).__name__}: {error}".split()))
            warn(f"plugin {point.name} ({point.distribution}) is skipped: {point.error}")
        tried.append(point)
    return made, tried


def agents(workspace: str | None = None) -> dict[str, AgentRecord]:
    """Return every agent by name. A trusted workspace's files win over the home's, files over plugins."""
    found: dict[str, AgentRecord] = {}
    for path in _agent_files(workspace):
        try:
            one = from_file(path)
            found.setdefault(one.name, one)
        except AgentInvalid as error:
            warn(f"{error.message}; it is skipped")
    return found | {name: one for name, one in _offered_agents().items() if name not in found}


def agent(name: str, workspace: str | None = None) -> AgentRecord:
    """Return the agent of that name. A broken file of that name is an error, not a missing agent."""
    for path in _agent_files(workspace):
        if os.path.basename(path) == f"{name}.toml":
            return from_file(path)
    known = _offered_agents()
    if name not in known:
        for path in config.untrusted_files(workspace):
            if os.path.basename(path) == f"{name}.toml":
                raise WorkspaceUntrusted(name, path, hint=config.how_to_trust(workspace))
        close = closest(name, agents(workspace))
        raise AgentNotFound(name, hint=f"did you mean {close}?" if close else None)
    return known[name]


def default_agent(preferred: str = "", workspace: str | None = None) -> AgentRecord:
    """For a session that names none: the configured agent, else the first installed, else the echo."""
    if preferred:
        return agent(preferred, workspace)
    known = agents(workspace)
    real = [one for one in known.values() if one.name != ECHO and one.state() == "installed"]
    chosen = real[0] if real else known.get(ECHO)
    if chosen is None:
        raise AgentNotFound("(none is installed)", hint="agh agent list")
    return chosen


@cache
def strategies() -> list[Strategy]:
    """The ways to restore a conversation, in the order in which they are tried."""
    found: dict[str, Strategy] = {}

    def keep(source: str, one: Strategy) -> None:
        found.setdefault(one.name, one)

    _collect("agh_restore_strategies", keep)
    return sorted(found.values(), key=lambda one: (one.rank, one.name))


def exporters() -> dict[str, Exporter]:
    """The formats in which a session can be exported, by name."""
    found: dict[str, Exporter] = {}
    _collect("agh_register_exporters", lambda source, one: found.setdefault(one.name, one))
    return found


def importers() -> dict[str, Importer]:
    """The kinds of files that can be imported, by name, in the order in which they are asked."""
    found: dict[str, Importer] = {}
    _collect("agh_register_importers", lambda source, one: found.setdefault(one.name, one))
    return found


def kind(name: str) -> Kind:
    """The kind of sessions of that name, from the plugin that keeps them."""
    found: dict[str, Kind] = {}
    _collect("agh_register_kinds", lambda source, one: found.setdefault(one.name, one))
    if name not in found:
        raise KindUnknown(name)
    return found[name]


def add_commands(group: click.Group) -> None:
    """Let plugins add their commands; one that fails is named and skipped."""
    for name, offer in implementations("agh_register_commands"):
        try:
            offer(group)
        except Exception as error:
            warn(f"plugin {name}: its commands are skipped: {error}")


def implementations(hook: str) -> list[tuple[str, Callable[..., Any]]]:
    """Who implements a hook, the built-in plugin first. Called one by one, so that one may fail alone."""
    found = getattr(manager()[0].hook, hook).get_hookimpls()
    return sorted(
        ((one.plugin_name, one.function) for one in found), key=lambda one: (one[0] != "built-in", one[0])
    )


@cache
def _offered_agents() -> dict[str, AgentRecord]:
    found: dict[str, AgentRecord] = {}

    def keep(source: str, given: dict[str, Any]) -> None:
        one = record(given, source)
        found.setdefault(one.name, one)

    _collect("agh_register_agents", keep)
    return found


def _collect(hook: str, keep: Callable[[str, Any], object]) -> None:
    """Give every plugin's implementation a `register` function; what fails is named and skipped."""
    for name, offer in implementations(hook):
        source = name if name == "built-in" else f"plugin {name}"
        try:
            offer(lambda given, source=source: keep(source, given))
        except Exception as error:
            warn(f"{source}: {hook} failed: {error}")


def _agent_files(workspace: str | None) -> list[str]:
    """List the files that define agents, the strongest first."""
    trusted = config.trusted_folder(workspace)
    return [*(config.agent_files(trusted) if trusted else []), *config.agent_files(home_path())]


def _in_directory(directory: str) -> Iterator[Plugin]:
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
            yield from _parse(text, name.removesuffix(".dist-info"), directory)


def _parse(text: str, distribution: str, location: str) -> Iterator[Plugin]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
            name, _, module = line.partition("=")
            yield Plugin(name.strip(), module.strip(), distribution, location)
