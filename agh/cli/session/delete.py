"""`agh session delete`"""

from __future__ import annotations

import click

from agh.console.output import output_option, remark, write_result
from agh.sessions.delete import delete
from agh.store import sessions


@click.command("delete", epilog="Example:  agh session delete fix-login")
@click.argument("id")
@click.option(
    "--keep-agent-session", is_flag=True, help="Do not delete the agent's own copy of the conversation."
)
@output_option()
def delete_command(id: str, keep_agent_session: bool, output: str) -> None:
    """Delete a stopped session and its files. This cannot be undone."""
    session = sessions.resolve(id)
    leftovers = delete(session, agent_session=not keep_agent_session)
    for leftover in leftovers:
        remark(f"not deleted: {leftover}")
    result = {"id": session.id, "not_removed": leftovers}
    write_result("deleted", result, output, lambda: f"{result['id']}  deleted")
