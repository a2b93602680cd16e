"""`agh session ensure`"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from agh.cli.session.new import agent_options, announce, check_options, tell_remarks
from agh.console.output import output_option, starting, write_json, write_text
from agh.sessions.new import ensure
from agh.store.views import session_view


@click.command(
    "ensure",
    epilog="Example (cron):  agh session ensure --name nightly --agent codex",
)
@click.option("--name", required=True, help="The session's name.")
@agent_options
@output_option()
def ensure_command(name: str, output: str, **options: Any) -> None:
    """Print the id of the session called NAME; create it if needed.

    Concurrent calls create only one session. The other options apply only to a new session, but it is an
    error if the existing one has a different agent than --agent. A stopped session is not started; the next
    prompt does that.
    """
    session_options = check_options(**options)
    with starting() as spinner:
        session, hello = ensure(name, **session_options, announce=partial(announce, spinner))
    created = hello is not None
    view = session_view(session)
    if hello is not None:
        tell_remarks(hello)
    if output == "human":
        write_text(f"{view['id']}\n")
    elif output == "json":
        write_json({"session": view, "created": created})
    else:
        write_json(view, lines=True)
