"""`agh session archive`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.sessions.update import archive
from agh.store import sessions
from agh.store.views import session_view


@click.command("archive", epilog="Example:  agh session archive fix-login")
@click.argument("id")
@click.option("--undo", is_flag=True, help="Take it out of the archive.")
@output_option()
def archive_command(id: str, undo: bool, output: str) -> None:
    """Hide a stopped session from lists without deleting it.

    You can still read it, but not resume it until you undo this with --undo. Another session can take its
    name.
    """
    session = sessions.resolve(id)
    archive(session, undo=undo)
    view = session_view(session)
    write_result("session", view, output, lambda: f"{view['id']}  {'restored' if undo else 'archived'}")
