"""`agh session stop`"""

from __future__ import annotations

import click

from agh.console.output import output_option, write_result
from agh.errors import Usage
from agh.sessions.stop import stop_session
from agh.store import sessions


@click.command(
    "stop",
    epilog="\b\nExamples:\n  agh session stop @last\n  agh session stop fix-login --kill\n"
    "  agh session stop --all",
)
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Every live session.")
@click.option("--kill", is_flag=True, help="Kill a keeper that does not respond.")
@output_option()
def stop_command(id: str | None, everything: bool, kill: bool, output: str) -> None:
    """End a session's agent. The session stays and can be resumed."""
    if everything:
        if id is not None:
            raise Usage("name a session, or use --all", hint="agh session stop --all")
        from agh.cli.session.outcomes import print_outcomes
        from agh.sessions.many import stop_all

        print_outcomes(stop_all(kill=kill), output, "no session is live")
        return
    if id is None:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=context.command.params[0])  # on a terminal: pick one
    view = stop_session(sessions.resolve(id), kill=kill)
    write_result("session", view, output, lambda: f"{view['id']}  stopped: {view.get('stop_reason')}")
