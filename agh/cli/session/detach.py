"""`agh session detach`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.console.terminal import default_holder
from agh.keeper import client
from agh.store import sessions


@click.command("detach", epilog="Example:  agh session detach @last")
@click.argument("id")
@click.option("--holder", help="Name under which you hold the session (default: this terminal or script).")
@click.option("--force", is_flag=True, help="Release the lease even if somebody else holds it.")
@output_option()
def detach_command(id: str, holder: str | None, force: bool, output: str) -> None:
    """Release a live session, so that others can attach. The agent keeps working."""
    receipt = client.call(sessions.resolve(id), "detach", holder=holder or default_holder(), force=force)
    write_result(
        "detach", receipt, output, lambda: f"detached {receipt['detached'] or '(nobody was attached)'}"
    )
