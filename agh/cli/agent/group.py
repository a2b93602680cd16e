"""`agh agent`: the agents that agh knows"""

from __future__ import annotations

import shlex
from typing import Any

import click

from agh import config
from agh.adapters import registry
from agh.adapters.agents import AgentRecord
from agh.cli.lazy import LazyGroup
from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.store import workspaces

COMMANDS = {
    **{name: f"agh.cli.agent.catalog:{name}" for name in ("search", "install", "update", "uninstall")},
    **{name: f"agh.cli.agent.login:{name}" for name in ("login", "logout")},
}


@click.group("agent", cls=LazyGroup, modules=COMMANDS, epilog="Example:  agh agent list")
def agent() -> None:
    """List, check and install agents, and log in to them."""


@agent.command(
    "list", epilog="Example:  agh agent list -o json | jq -r '.agents[] | select(.state==\"installed\").name'"
)
@click.option("--workspace", metavar="W", help="Include agents defined by this workspace (default: here).")
@output_option()
def list_agents(workspace: str | None, output: str) -> None:
    """List agents: installed, runnable with npx or uvx, or missing.

    VERSION is the version that `agh agent install` pinned. `agh agent search` lists more agents.
    """
    directory = workspaces.find_existing(workspace).path
    agents = [describe(record) for record in registry.agents(directory).values()]
    write_result("agents", agents, output, lambda: _table(agents))
    if ignored := config.untrusted_note(directory):
        remark(ignored)


@agent.command("show", epilog="Example:  agh agent show opencode")
@click.argument("name")
@click.option("--workspace", metavar="W", help="Include agents defined by this workspace (default: here).")
@output_option()
def show_agent(name: str, workspace: str | None, output: str) -> None:
    """Show one agent: how it is started, installed and logged in to."""
    row = describe(registry.agent(name, workspaces.find_existing(workspace).path))
    write_result("agent", row, output, lambda: "\n".join(_lines(row)))


@agent.command("doctor", epilog="Example:  agh agent doctor opencode")
@click.argument("name", required=False)
@click.option("--command", metavar="ARGV", help="Check this program instead of a known agent.")
@click.option("--on", "place", metavar="PLACE", help="Check the agent in this place; see agh-places(7).")
@output_option()
def doctor(name: str | None, command: str | None, place: str | None, output: str) -> None:
    """Start an agent and report what it can do.

    Exits 9 if it is not installed or not logged in."""
    from agh.sessions.agent.probe import probe

    report = probe(name, shlex.split(command) if command else None, place)
    write_result("agent", report, output, lambda: "\n".join(_lines(report)))


def describe(record: AgentRecord) -> dict[str, Any]:
    return {
        **record._asdict(),
        "state": record.state(),
        "version": record.pin.get("version"),
        "command": record.command(),
    }


def _table(agents: list[dict[str, Any]]) -> str:
    order = ("installed", "runnable", "not installed")
    rows = [
        (row["name"], row["state"], row["version"] or "-", shlex.join(row["argv"]), _origin(row))
        for row in sorted(agents, key=lambda row: order.index(row["state"]))
    ]
    return columns(
        ("AGENT", "STATE", "VERSION", "COMMAND", "FROM"),
        [[terminal.one_line(cell, 60) for cell in row] for row in rows],
    )


def _origin(row: dict[str, Any]) -> str:
    """Say where a record comes from: a pinned version by the way it was installed, else its source."""
    return f"{row['pin']['via']} (pinned)" if row["pin"] else str(row["source"])


def _lines(fields: dict[str, Any]) -> list[str]:
    filled = {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}
    return [
        f"{key.replace('_', ' ') + ':':<20}{terminal.clean(_text(value))}" for key, value in filled.items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(_entry(key, inner) for key, inner in value.items())
    return str(value)


def _entry(key: str, value: Any) -> str:
    """Describe one entry of a table; a capability is only its name, and what belongs to it."""
    if value is False:
        return f"no {key}"
    if value is True or value == {}:
        return key
    return f"{key} ({_text(value)})" if isinstance(value, dict) else f"{key} {_text(value)}"
