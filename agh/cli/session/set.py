"""`agh session set`"""

from __future__ import annotations

import click

from agh.cli.session.new import key_and_value
from agh.cli.session.rename import change
from agh.console.output import output_option, write_result
from agh.errors import KeeperGone
from agh.keeper import client
from agh.sessions.new import checked_mode
from agh.store import meta, sessions
from agh.store.views import owned_update, session_view


@click.command("set", epilog="Example:  agh session set @last model=large mode=code")
@click.argument("id")
@click.argument("choices", nargs=-1, required=True, metavar="KEY=VALUE...")
@output_option()
def set_command(id: str, choices: tuple[str, ...], output: str) -> None:
    """Choose the agent's model, mode or another option, now and on every resume; or what it may do without
    asking: permissions=MODE.

    On a live session a value that the agent does not offer is refused; on a stopped one it is only
    noted, and tried at the next resume.
    """
    directory = sessions.resolve(id)
    for name, value in [key_and_value(choice) for choice in choices]:
        choose(directory, name, value)
    view = session_view(directory)
    write_result("session", view, output, lambda: "\n".join(choices))


def choose(directory: str, name: str, value: str) -> None:
    if name == "permissions":
        change(directory, permissions=checked_mode(value))
        return
    try:
        client.call(directory, "set", name=name, value=value)
    except KeeperGone:
        stored = meta.read(directory)
        meta.choose(stored, name, value)
        owned_update(directory, **{key: stored.get(key) for key in ("model", "mode", "options")})
