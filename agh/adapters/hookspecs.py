"""The whole plugin contract. A plugin is a package with an entry point in group `agh`:

    [project.entry-points.agh]
    mine = "my_package.plugin"

The module implements any of these functions, each marked with `@hookimpl` from this module. A plugin
that fails is named in a warning and skipped; it cannot break a command that does not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from agh.adapters.kinds import Kind
    from agh.adapters.launch import Launch
    from agh.adapters.restore import Strategy
    from agh.core.exchange import Exporter, Importer

hookspec = pluggy.HookspecMarker("agh")
hookimpl = pluggy.HookimplMarker("agh")


class Veto(Exception):
    """Raised by `agh_lifecycle` to stop what is about to happen; the text says why."""


@hookspec
def agh_lifecycle(event: dict[str, Any]) -> None:
    """Hear what happens in a session, in its keeper; each call is a row in `hook_runs`.

    :param event: `event` (session_start, session_resume, prompt, permission, turn_end, session_stop),
        `session_id`, `timestamp` and what belongs to the event. Raise `Veto` to stop a session_start, a
        session_resume or a prompt.
    """


@hookspec
def agh_register_agents(register: Callable[[dict[str, Any]], None]) -> None:
    """Offer agents.

    :param register: call it once per agent, with the fields of `agh.adapters.agents.AgentRecord` as a
        dict; `name` and `argv` are required. The first to register a name has it.
    """


@hookspec
def agh_register_kinds(register: Callable[[Kind], None]) -> None:
    """Offer kinds of sessions that a keeper of your own keeps.

    :param register: call it once per kind, with an `agh.adapters.kinds.Kind`; a session is of the kind
        that its metadata names.
    """


@hookspec
def agh_restore_strategies(register: Callable[[Strategy], None]) -> None:
    """Offer ways to get a conversation back on resume.

    :param register: call it once per strategy, with an `agh.adapters.restore.Strategy`; its rank places
        it among the built-in ones (10 native_resume to 50 idle_boot).
    """


@hookspec
def agh_prepare_launch(launch: Launch) -> None:
    """Have a say in how an agent is started: in a container, on another machine, below limits.

    :param launch: an `agh.adapters.launch.Launch`, for every agent that is about to start; change its
        fields, and touch nothing. One whose `place` nobody makes `elsewhere` is refused; so is a launch
        for which this fails, rather than let the agent run where it was not meant to.
    """


@hookspec
def agh_register_commands(group: click.Group) -> None:
    """Add commands to `agh`.

    :param group: the root command; call `group.add_command(…)`. A built-in command cannot be replaced.
    """


@hookspec
def agh_register_exporters(register: Callable[[Exporter], None]) -> None:
    """Offer formats for `agh session export -o NAME`.

    :param register: call it once per format, with an `agh.core.exchange.Exporter`. The first to register
        a name has it.
    """


@hookspec
def agh_register_importers(register: Callable[[Importer], None]) -> None:
    """Offer kinds of files for `agh session import`.

    :param register: call it once per kind, with an `agh.core.exchange.Importer`. The first that
        recognises a file reads it, the built-in ones before those of plugins.
    """
