"""`agh plugins`: what is installed, where it came from and what it offers; and installing more."""

from __future__ import annotations

from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result


@click.group("plugins", epilog="Example:  agh plugins list")
def plugins() -> None:
    """See and install plugins."""


@plugins.command("list", epilog="Example:  agh plugins list")
@output_option()
def list_plugins(output: str) -> None:
    """List plugins, where each comes from, and its hooks."""
    rows = describe()
    write_result("plugins", rows, output, lambda: _table(rows))
    from agh.adapters.registry import duplicates

    for plugin, other in duplicates():
        used, unused = plugin.distribution, other.distribution
        remark(f"agh: {used} and {unused} both provide the plugin {plugin.name}; agh uses the first")


@plugins.command("install", epilog="\b\nExamples:\n  agh plugins install agh-hello\n  agh plugins install .")
@click.argument("plugin", metavar="NAME|PATH")
@output_option()
def install(plugin: str, output: str) -> None:
    """Install a plugin into the environment that agh runs in.

    A name is looked up on the package index. A path is a project's directory, a wheel or an sdist. The
    program that installed agh does the work: pipx, uv or pip. Its command is shown before it runs.
    """
    from agh.adapters.plugin_install import install_plugin

    rows = install_plugin(plugin, lambda command: remark(f"+ {command}"))
    write_result("plugins", rows, output, lambda: _table(rows))


def describe() -> list[dict[str, Any]]:
    from agh.adapters.registry import manager

    plugin_manager, attempts = manager()
    return [
        {
            "name": plugin.name,
            "module": plugin.module,
            "distribution": plugin.distribution,
            "location": plugin.location,
            "hooks": sorted(
                caller.name
                for caller in plugin_manager.get_hookcallers(plugin_manager.get_plugin(plugin.name)) or []
            )
            if plugin_manager.has_plugin(plugin.name)
            else [],
            "error": plugin.error or None,
        }
        for plugin in attempts
    ]


def _table(plugins: list[dict[str, Any]]) -> str:
    if not plugins:
        return "no plugins are installed\n"
    rows = [
        (
            terminal.one_line(plugin["name"], 30),
            terminal.one_line(plugin["distribution"], 40),
            terminal.one_line(plugin["error"] or ", ".join(plugin["hooks"]) or "-", 100),
        )
        for plugin in plugins
    ]
    return columns(("PLUGIN", "FROM", "OFFERS"), rows)
