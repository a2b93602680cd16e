"""The whole plugin contract. A plugin is a package with an entry point in group `agh`:

    [project.entry-points.agh]
    mine = "my_package.plugin"

Its module implements any of these functions, each marked with `@agh.hookimpl`:

    import agh

    @agh.hookimpl
    def agh_register_agents(register):
        register({"name": "mine", "argv": ["my-agent", "--acp"]})

pluggy calls them: an implementation may leave out parameters, and `wrapper`, `tryfirst` and `trylast` work.
Without these, plugins are called in the order of their names. A plugin that fails is named in a warning and
skipped, unless its hook says otherwise; it cannot break a command that does not need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from agh.adapters.far_command import FarCommand
    from agh.adapters.kinds import Kind
    from agh.adapters.launch import Launch
    from agh.adapters.restore import Strategy
    from agh.adapters.web import WebApplication
    from agh.core.exchange import Exporter, Importer

hookspec = pluggy.HookspecMarker("agh")
hookimpl = pluggy.HookimplMarker("agh")


class Veto(Exception):
    """Raised by `agh_lifecycle` to stop what is about to happen; its text says why."""


@hookspec
def agh_lifecycle(event: dict[str, Any]) -> None:
    """Follow what happens in a session. Called in its keeper; each call is a row in `hook_runs`.

    If a plugin fails, the failure is recorded there and nothing is stopped.

    :param event: What happened: `event` (session_start, session_resume, prompt, permission, turn_end or
        session_stop), `session_id`, `timestamp` and the fields of that event. Raise
        `agh.adapters.hookspecs.Veto` to stop a session_start, a session_resume or a prompt.
    """


@hookspec
def agh_register_agents(register: Callable[[dict[str, Any]], None]) -> None:
    """Offer agents.

    :param register: Call it once per agent, with the fields of `agh.adapters.agents.AgentRecord` as a dict;
        `name` and `argv` are required. The first plugin to register a name gets it.
    """


@hookspec
def agh_register_kinds(register: Callable[[Kind], None]) -> None:
    """Offer kinds of sessions that run in a keeper of your own.

    :param register: Call it once per kind, with an `agh.adapters.kinds.Kind`. A session's metadata names
        its kind.
    """


@hookspec
def agh_restore_strategies(register: Callable[[Strategy], None]) -> None:
    """Offer ways to restore a conversation on resume.

    :param register: Call it once per strategy, with an `agh.adapters.restore.Strategy`. Its rank decides
        when it is tried: the built-in ones have 5 (native_fork) to 50 (idle_boot).
    """


@hookspec
def agh_prepare_launch(launch: Launch) -> None:
    """Change how an agent is started: in a container, on another machine, under resource limits.

    If a plugin fails here, the agent is not started, rather than run without its sandbox.

    :param launch: The `agh.adapters.launch.Launch` of an agent that is about to start. Change its fields
        and do nothing else. If it has a `place` and no plugin sets `elsewhere`, the launch is refused.
    """


@hookspec
def agh_prepare_far_command(command: FarCommand) -> None:
    """Describe how to run an agh command in another place, with the agh that is installed there.

    If a plugin fails here, the command is not run.

    :param command: The `agh.adapters.far_command.FarCommand` that is about to run. Fill in its `argv` and
        `preamble` if your plugin handles the place, and do nothing else. If no plugin does, the command
        is refused.
    """


@hookspec
def agh_register_commands(group: click.Group) -> None:
    """Add commands to `agh`.

    :param group: The root command; call `group.add_command(…)`. Built-in commands cannot be replaced.
    """


@hookspec
def agh_register_web_applications(register: Callable[[WebApplication], None]) -> None:
    """Add applications to `agh serve`.

    :param register: Call it once per application, with an `agh.adapters.web.WebApplication`. The paths of
        the API and the page cannot be replaced.
    """


@hookspec
def agh_register_exporters(register: Callable[[Exporter], None]) -> None:
    """Offer formats for `agh session export -o NAME`.

    :param register: Call it once per format, with an `agh.core.exchange.Exporter`. The first plugin to
        register a name gets it.
    """


@hookspec
def agh_register_importers(register: Callable[[Importer], None]) -> None:
    """Offer file formats for `agh session import`.

    :param register: Call it once per format, with an `agh.core.exchange.Importer`. The first that recognizes
        a file reads it; the built-in formats are tried first.
    """


@hookspec
def agh_register_redactions(register: Callable[[tuple[str, str | re.Pattern[str]]], None]) -> None:
    """Describe secrets to hide in everything that leaves agh.

    :param register: Call it once per kind of secret, with a name and a regular expression. If the
        expression has a group named `secret`, only the text of that group is hidden; otherwise, the whole
        match. Long texts are searched, so write an expression that does not backtrack.
    """
