"""`agh session stop`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.sessions.stop import stop_session
from agh.store import sessions


@click.command("stop", epilog="\b\nExamples:\n  agh session stop @last\n  agh session stop fix-login --kill")
@click.argument("id")
@click.option("--kill", is_flag=True, help="Kill a keeper that does not respond.")
@output_option()
def stop_command(id: str, kill: bool, output: str) -> None:
    """End a session's agent. The session stays and can be resumed."""
    view = stop_session(sessions.resolve(id), kill=kill)
    write_result("session", view, output, lambda: f"{view['id']}  stopped: {view.get('stop_reason')}")
