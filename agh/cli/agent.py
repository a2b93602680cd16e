"""`agh agent`: the agents that agh knows"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

import click

from agh import config
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.console import terminal
from agh.console.output import columns, output_option, talk, write_result
from agh.store import workspaces


@click.group("agent", epilog="Example:  agh agent list")
def agent() -> None:
    """See which agents there are, and whether they work."""


@agent.command(
    "list", epilog="Example:  agh agent list -o json | jq -r '.agents[] | select(.state==\"installed\").name'"
)
@click.option("--workspace", metavar="W", help="Also the agents of this workspace (default: this one).")
@output_option()
def list_agents(workspace: str | None, output: str) -> None:
    """List agents: installed, runnable (through npx), or not installed."""
    directory = workspaces.existing(workspace).path
    found = [_shown(one) for one in registry.agents(directory).values()]
    write_result("agents", found, output, lambda: _table(found))
    if ignored := config.untrusted_note(directory):
        talk(ignored)


@agent.command("show", epilog="Example:  agh agent show opencode")
@click.argument("name")
@click.option("--workspace", metavar="W", help="Also the agents of this workspace (default: this one).")
@output_option()
def show_agent(name: str, workspace: str | None, output: str) -> None:
    """Show one agent: how it is started, installed and logged in to."""
    one = _shown(registry.agent(name, workspaces.existing(workspace).path))
    write_result("agent", one, output, lambda: "\n".join(_lines(one)))


@agent.command("doctor", epilog="Example:  agh agent doctor opencode")
@click.argument("name", required=False)
@click.option("--command", metavar="ARGV", help="Try this program instead of a known agent.")
@click.option("--on", "place", metavar="PLACE", help="Try it there: see agh-places(7).")
@output_option()
def doctor(name: str | None, command: str | None, place: str | None, output: str) -> None:
    """Start an agent and report what it can do. Exit 9 if it is not installed or not logged in."""
    from agh.sessions.probe import probe

    found = probe(name, shlex.split(command) if command else None, place)
    write_result("agent", found, output, lambda: "\n".join(_lines(found)))


def _shown(one: AgentRecord) -> dict[str, Any]:
    return {**asdict(one), "state": one.state(), "command": one.command()}


def _table(found: list[dict[str, Any]]) -> str:
    order = ("installed", "runnable", "not installed")
    rows = [
        (one["name"], one["state"], shlex.join(one["argv"]), one["source"])
        for one in sorted(found, key=lambda one: order.index(one["state"]))
    ]
    return columns(
        ("AGENT", "STATE", "COMMAND", "FROM"), [[terminal.one_line(cell, 60) for cell in row] for row in rows]
    )


def _lines(one: dict[str, Any]) -> list[str]:
    shown = {key: value for key, value in one.items() if value not in (None, "", [], (), {})}
    return [
        f"{key.replace('_', ' ') + ':':<20}{terminal.clean(_text(value))}" for key, value in shown.items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    return str(value)
