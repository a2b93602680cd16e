"""`agh session commands`"""

from __future__ import annotations

import click

from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.store import meta, sessions


@click.command("commands", epilog="Example:  agh session commands @last")
@click.argument("id")
@output_option()
def commands_command(id: str, output: str) -> None:
    """List the slash commands that a session's agent offers.

    Send one as a prompt: agh session prompt ID '/review the last commit'. Tab completes its name.
    """
    offered = meta.read(sessions.resolve(id)).get("commands") or []
    cells = [
        (f"/{entry.get('name')}", entry.get("hint") or "-", entry.get("description") or "-")
        for entry in offered
    ]
    rows = [[terminal.one_line(cell, 100) for cell in row] for row in cells]
    header = ("COMMAND", "INPUT", "DESCRIPTION")
    write_result("commands", offered, output, lambda: columns(header, rows) if rows else "")
    if not offered:
        remark("the agent offers no commands")
