"""The hook by which agh learns of the command `serve`. Every keeper loads this module, so it imports nothing
that takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import agh

if TYPE_CHECKING:
    import click


@agh.hookimpl
def agh_register_commands(group: click.Group) -> None:
    from agh_serve.command import serve_command

    group.add_command(serve_command)
