"""`agh session rename`"""

from __future__ import annotations

import os
from typing import Any

import click

from agh.console.output import output_option, write_result
from agh.errors import KeeperGone
from agh.keeper import client
from agh.sessions.new import check_name
from agh.store import sessions
from agh.store.views import owned_update, session_view


def change(directory: str, **changes: Any) -> None:
    """Change what people may change, through the keeper when there is one."""
    try:
        client.call(directory, "update", **changes)
    except KeeperGone:
        owned_update(directory, **changes)


@click.command("rename", epilog="Example:  agh session rename @last fix-login")
@click.argument("id")
@click.argument("name")
@output_option()
def rename_command(id: str, name: str, output: str) -> None:
    """Give a session a name. The empty name takes it away."""
    directory = sessions.resolve(id)
    with sessions.naming():
        if name:
            check_name(name, os.path.basename(directory))
        change(directory, name=name or None)
    view = session_view(directory)
    write_result("session", view, output, lambda: f"{view['id']}  {view.get('name') or '-'}")
