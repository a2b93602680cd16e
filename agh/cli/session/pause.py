"""`agh session pause`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.sessions.stop import stop_session
from agh.store import sessions


@click.command("pause", epilog="Example:  agh session pause @last")
@click.argument("id")
@output_option()
def pause_command(id: str, output: str) -> None:
    """Stop a session and save a checkpoint to resume from."""
    view = stop_session(sessions.resolve(id), reason="paused")
    write_result("session", view, output, lambda: f"{view['id']}  {view['phase']}")
