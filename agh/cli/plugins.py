"""`agh plugins`: what is installed, where it came from and what it offers."""

from __future__ import annotations

from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, output_option, write_result


@click.group("plugins", epilog="Example:  agh plugins list")
def plugins() -> None:
    """See the plugins that are installed."""


@plugins.command("list", epilog="Example:  agh plugins list")
@output_option()
def list_plugins(output: str) -> None:
    """List plugins, where each came from, and the hooks it implements."""
    found = describe()
    write_result("plugins", found, output, lambda: _table(found))


def describe() -> list[dict[str, Any]]:
    from agh.adapters.registry import manager

    made, tried = manager()
    return [
        {
            "name": one.name,
            "module": one.module,
            "distribution": one.distribution,
            "location": one.location,
            "hooks": sorted(caller.name for caller in made.get_hookcallers(made.get_plugin(one.name)) or [])
            if made.has_plugin(one.name)
            else [],
            "error": one.error or None,
        }
        for one in tried
    ]


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no plugins are installed\n"
    rows = [
        (
            terminal.one_line(one["name"], 30),
            terminal.one_line(one["distribution"], 40),
            terminal.one_line(one["error"] or ", ".join(one["hooks"]) or "-", 100),
        )
        for one in found
    ]
    return columns(("PLUGIN", "FROM", "OFFERS"), rows)
