"""`agh session fork`"""

from __future__ import annotations

import click

from agh.cli.look.turn_view import tell_restored
from agh.console.output import output_option, starting, write_result
from agh.sessions.fork import fork
from agh.store import meta, sessions
from agh.store.views import session_view


@click.command("fork", epilog="Example:  agh session fork @last --at 42 --name try-another-way")
@click.argument("id")
@click.option("--at", type=int, metavar="SEQ", help="Copy the history up to this event (default: all of it).")
@click.option("--name", help="A name for the new session.")
@output_option()
def fork_command(id: str, at: int | None, name: str | None, output: str) -> None:
    """Start a new session from the history of another.

    The original session does not change. The agent copies its own memory if it can. With --at, it can do so
    only if that event ends an answer. Otherwise, agh sends it the history with your next prompt.
    """
    source = sessions.resolve(id)
    with starting() as spinner:
        spinner.begin(meta.read(source)["agent_name"])
        session, hello = fork(source, at=at, name=name)
    tell_restored(hello)
    view = session_view(session)
    write_result("session", view, output, lambda: str(view["id"]))
