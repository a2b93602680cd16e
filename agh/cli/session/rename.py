"""`agh session rename`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.sessions.update import rename
from agh.store import sessions
from agh.store.views import session_view


@click.command("rename", epilog="Example:  agh session rename @last fix-login")
@click.argument("id")
@click.argument("name")
@output_option()
def rename_command(id: str, name: str, output: str) -> None:
    """Name or rename a session. An empty name clears it."""
    session = sessions.resolve(id)
    rename(session, name)
    view = session_view(session)
    write_result("session", view, output, lambda: f"{view['id']}  {view.get('name') or '-'}")
