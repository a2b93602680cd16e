"""`agh session permissions`, `approve` and `deny`"""

from __future__ import annotations

from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, output_option, write_result
from agh.sessions.permissions import decide, requests
from agh.store import sessions


@click.command("permissions", epilog="Example:  agh session permissions @last")
@click.argument("id")
@click.option("--all", "everything", is_flag=True, help="Also those that were decided.")
@output_option()
def permissions_command(id: str, everything: bool, output: str) -> None:
    """List the permission requests that wait for an answer."""
    rows = requests(sessions.resolve(id), everything)
    write_result("permissions", rows, output, lambda: _table(rows))


@click.command("approve", epilog="Example:  agh session approve @last")
@click.argument("id")
@click.argument("request", required=False)
@click.option("--always", is_flag=True, help="Choose the agent's option that lasts, where it offers one.")
@output_option()
def approve_command(id: str, request: str | None, always: bool, output: str) -> None:
    """Allow what the agent asks for: the oldest request, or REQUEST."""
    _decide(id, request, "allow_always" if always else "allow", output)


@click.command("deny", epilog="Example:  agh session deny @last")
@click.argument("id")
@click.argument("request", required=False)
@click.option("--always", is_flag=True, help="Choose the agent's option that lasts, where it offers one.")
@output_option()
def deny_command(id: str, request: str | None, always: bool, output: str) -> None:
    """Refuse what the agent asks for: the oldest request, or REQUEST."""
    _decide(id, request, "deny_always" if always else "deny", output)


def _decide(id: str, request: str | None, verdict: str, output: str) -> None:
    decided = decide(sessions.resolve(id), request, verdict)
    write_result("permission", decided, output, lambda: f"{decided['request_id']}  {decided['decision']}")


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    keys = ("request_id", "status", "action", "title")
    return columns(
        [name.upper() for name in keys],
        [[terminal.one_line(str(row[name] or "-"), 80) for name in keys] for row in rows],
    )
