"""`agh session cancel`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.console.when import parse_duration
from agh.errors import KeeperGone
from agh.keeper import client
from agh.store import sessions


@click.command("cancel", epilog="Example:  agh session cancel @last")
@click.argument("id")
@click.option("--grace", metavar="TIME", help="How long to wait before killing the agent (default: 30s).")
@output_option()
def cancel_command(id: str, grace: str | None, output: str) -> None:
    """Cancel the turn that is running. The session stays live.

    If a prompt is waiting for a usage limit to reset, cancels that prompt, even if the session is stopped.
    """
    session, seconds = sessions.resolve(id), parse_duration(grace, "--grace") if grace else None
    try:
        receipt = client.call(session, "cancel", grace=seconds)
    except KeeperGone:
        from agh.sessions.parked.due import cancel_parked

        receipt = cancel_parked(session)
    write_result("turn", receipt, output, lambda: f"{receipt['turn_id']}  cancelling")
