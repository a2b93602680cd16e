"""The plugins that are installed, and what they offer.

Entry points are read from `*.dist-info/entry_points.txt` directly: importlib.metadata costs more than a
whole command. Promises: a plugin that cannot be loaded, or whose hook fails, is named in a warning and
skipped. `AGH_PLUGINS=a,b` loads only those, `AGH_PLUGINS=` none. What is built in is a plugin too, and no
other can replace it. Never imports pluggy or a plugin until a hook is called: Tab completion needs neither.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agh import config, trust
from agh.adapters import calls
from agh.adapters.agents import AgentRecord, parse_agent, read_agent
from agh.adapters.calls import HookRun, PerPlugin
from agh.core.named_tuple import NamedTuple
from agh.core.suggest import closest
from agh.errors import AgentInvalid, AgentNotFound, KindUnknown, WorkspaceUntrusted
from agh.home import agent_files, home_path

if TYPE_CHECKING:
    import click
    import pluggy

    from agh.adapters.kinds import Kind
    from agh.adapters.redactions import Redaction
    from agh.adapters.restore import Strategy
    from agh.adapters.web import WebApplication
    from agh.core.exchange import Exporter, Importer

GROUP = "[agh]"
ECHO = "echo"
BUILT_IN = "built-in"


class Named(Protocol):
    """Anything that a plugin can register: an agent, a strategy, a format."""

    @property
    def name(self) -> str:
        """Return the name that users know it by."""


Offer = TypeVar("Offer", bound=Named)


class Plugin(NamedTuple):
    """An entry point; `error` says why the plugin could not be loaded, and is empty if it was."""

    name: str
    module: str
    distribution: str
    location: str
    error: str = ""


def warn(text: str) -> None:
    """Print a warning to standard error."""
    print(f"agh: {text}", file=sys.stderr, flush=True)


def entry_points() -> list[Plugin]:
    """Return every installed plugin that AGH_PLUGINS allows, by name; the first on the path wins."""
    setting = os.environ.get("AGH_PLUGINS")
    allowed = None if setting is None else {name.strip() for name in setting.split(",")}
    points: dict[str, Plugin] = {}
    for directory in dict.fromkeys(sys.path):
        for point in _in_directory(directory):
            if allowed is None or point.name in allowed:
                points.setdefault(point.name, point)
    return sorted(points.values())


def duplicates() -> list[tuple[Plugin, Plugin]]:
    """Return the plugins that two distributions install: the one in use, and the other."""
    points = {point.name: point for point in entry_points()}
    others = (point for directory in dict.fromkeys(sys.path) for point in _in_directory(directory))
    return [
        (points[other.name], other)
        for other in others
        if other.name in points
        and other.module == points[other.name].module
        and other.distribution != points[other.name].distribution
    ]


@cache
def manager() -> tuple[pluggy.PluginManager, list[Plugin]]:
    """Load every plugin; return pluggy's manager and the list of all plugins, with those that failed.

    Never call `manager.hook` directly: `call_hook` keeps one plugin's failure from harming the others.
    """
    import pluggy

    from agh.adapters import builtin, hookspecs

    plugins = pluggy.PluginManager("agh")
    plugins.add_hookspecs(hookspecs)
    plugins.register(calls.GuardedPlugin(BUILT_IN, builtin, plugins), BUILT_IN)
    # pluggy calls the last registered first: backwards, so that plugins are called by name.
    tried = [_load(plugins, point) for point in reversed(entry_points())]
    return plugins, sorted(tried)


def _load(plugins: pluggy.PluginManager, point: Plugin) -> Plugin:
    """Import and register a plugin; return its entry point, with the error if that failed."""
    plugin = None
    try:
        if plugins.has_plugin(point.name):
            raise ValueError("another plugin has this name")
        module = import_module(point.module)
        if any(other.module is module for other in plugins.get_plugins()):
            raise ValueError(f"{point.module} is loaded under another name")
        plugin = calls.GuardedPlugin(point.name, module, plugins)
        plugins.register(plugin, point.name)
        plugins.check_pending()
    except (Exception, SystemExit) as error:
        if plugin is not None and plugins.get_plugin(point.name) is plugin:
            plugins.unregister(name=point.name)
        point = point._replace(error=" ".join(f"{type(error).__name__}: {error}".split()))
        warn(f"plugin {point.name} ({point.distribution}) is skipped: {point.error}")
    return point


def call_hook(hook: str, on_end: Callable[[HookRun], None], **arguments: Any) -> None:
    """Call every plugin's implementation of a hook, and `on_end` as each one ends; see `calls.call_hook`."""
    calls.call_hook(getattr(manager()[0].hook, hook), on_end, **arguments)


def agents(workspace: str | None = None) -> dict[str, AgentRecord]:
    """Return every agent by name. The home's files win over a trusted workspace's, files over plugins."""
    defined: dict[str, AgentRecord] = {}
    for path in _agent_files(workspace):
        try:
            agent = _read_agent(path, workspace)
            defined.setdefault(agent.name, agent)
        except AgentInvalid as error:
            warn(f"{error.message}; this agent is skipped")
    return defined | {name: agent for name, agent in offered_agents().items() if name not in defined}


def agent(name: str, workspace: str | None = None) -> AgentRecord:
    """Return the agent of that name. A broken file of that name is an error, not a missing agent."""
    for path in _agent_files(workspace):
        if os.path.basename(path) == f"{name}.toml":
            return _read_agent(path, workspace)
    offered = offered_agents()
    if name not in offered:
        for path in config.untrusted_files(workspace):
            if os.path.basename(path) == f"{name}.toml":
                raise WorkspaceUntrusted(name, path, hint=config.how_to_trust(workspace))
        close = closest(name, agents(workspace))
        hint = f"did you mean {close}?" if close else None
        raise AgentNotFound(f"there is no agent called {name}", name, hint=hint)
    return offered[name]


def default_agent(preferred: str = "", workspace: str | None = None) -> AgentRecord:
    """Return the agent for a session that names none.

    It is the configured agent, else the first that is installed, else the echo agent.
    """
    if preferred:
        return agent(preferred, workspace)
    candidates = agents(workspace)
    for candidate in candidates.values():
        if candidate.name != ECHO and candidate.state() == "installed":
            return candidate
    if ECHO not in candidates:
        raise AgentNotFound("no agent is installed", hint="agh agent list, then agh agent install NAME")
    return candidates[ECHO]


@cache
def strategies() -> list[Strategy]:
    """Return the strategies to restore a conversation, in the order in which to try them."""
    offered: dict[str, Strategy] = _collect("agh_restore_strategies")
    return sorted(offered.values(), key=lambda strategy: (strategy.rank, strategy.name))


def exporters() -> dict[str, Exporter]:
    """Return the formats in which a session can be exported, by name."""
    return _collect("agh_register_exporters")


def importers() -> dict[str, Importer]:
    """Return the formats that can be imported, by name, in the order in which to try them on a file."""
    return _collect("agh_register_importers")


def redactions() -> dict[str, Redaction]:
    """Return the kinds of secrets that plugins describe, by name."""
    from agh.adapters.redactions import redaction

    return _collect("agh_register_redactions", redaction)


def kind(name: str) -> Kind:
    """Return the kind of session of that name, from the plugin that runs such sessions."""
    kinds: dict[str, Kind] = _collect("agh_register_kinds")
    if name not in kinds:
        raise KindUnknown(name)
    return kinds[name]


def web_applications() -> dict[str, WebApplication]:
    """Return what plugins add to `agh serve`, by path."""
    return _collect("agh_register_web_applications")


def add_commands(group: click.Group) -> None:
    """Let plugins add their commands to the group; name a plugin that fails in a warning and skip it."""

    def warn_of_failure(run: HookRun) -> None:
        if run.error is not None:
            warn(f"plugin {run.plugin}: its commands are skipped: {run.error}")

    call_hook("agh_register_commands", warn_of_failure, group=group)


@cache
def offered_agents() -> dict[str, AgentRecord]:
    """Return the built-in agents and those of plugins, without those that files define."""
    return _collect("agh_register_agents", parse_agent)


def _collect(hook: str, convert: Callable[[Any, str], Offer] | None = None) -> dict[str, Offer]:
    """Call a hook whose implementations `register` what they offer; return the offers by name.

    The first plugin to register a name has it, but the built-in offers win, and come first, whatever the
    order of the calls. `convert` turns what a plugin registers, and its source, into the offer.
    """
    built_in: dict[str, Offer] = {}
    from_plugins: dict[str, Offer] = {}

    def registrar(plugin: str) -> Callable[[Any], None]:
        offers = built_in if plugin == BUILT_IN else from_plugins

        def register(offer: Any) -> None:
            if convert is not None:
                offer = convert(offer, _source(plugin))
            offers.setdefault(offer.name, offer)

        return register

    def warn_of_failure(run: HookRun) -> None:
        if run.error is not None:
            warn(f"{_source(run.plugin)}: {hook} failed: {run.error}")

    call_hook(hook, warn_of_failure, register=PerPlugin(registrar))
    return built_in | {name: offer for name, offer in from_plugins.items() if name not in built_in}


def _source(plugin: str) -> str:
    return plugin if plugin == BUILT_IN else f"plugin {plugin}"


def _agent_files(workspace: str | None) -> list[str]:
    """List the files that define agents, the strongest first: a workspace adds to the user's own."""
    trusted = config.trusted_folder(workspace)
    return [*agent_files(home_path()), *(agent_files(trusted) if trusted else [])]


def _read_agent(path: str, workspace: str | None) -> AgentRecord:
    """Read the file of an agent; a program below `.agh/` that was trusted is taken from its copy."""
    agent, folder = read_agent(path, offered_agents), os.path.dirname(os.path.dirname(path))
    if folder == home_path() or folder == trust.folder_of(workspace):
        return agent
    return agent._replace(argv=tuple(trust.rebase(list(agent.argv), workspace, folder)))


def _in_directory(directory: str) -> Iterator[Plugin]:
    try:
        names = sorted(name for name in os.listdir(directory or ".") if name.endswith(".dist-info"))
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
