"""`agh session set`"""

from __future__ import annotations

import click

from agh.cli.session.new import key_and_value
from agh.console.output import output_option, write_result
from agh.sessions.update import choose
from agh.store import sessions
from agh.store.views import session_view


@click.command("set", epilog="Example:  agh session set @last model=large mode=code")
@click.argument("id")
@click.argument("choices", nargs=-1, required=True, metavar="KEY=VALUE...")
@output_option()
def set_command(id: str, choices: tuple[str, ...], output: str) -> None:
    """Choose the agent's model, mode, options or permissions.

    The choice applies now and after every resume. permissions=MODE sets what the agent may do without asking.

    A live session refuses a value that the agent does not offer. A stopped one stores it and tries it at the
    next resume.
    """
    session = sessions.resolve(id)
    choose(session, dict(map(key_and_value, choices)))
    view = session_view(session)
    write_result("session", view, output, lambda: "\n".join(choices))
