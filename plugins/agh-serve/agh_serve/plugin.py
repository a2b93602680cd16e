"""What agh learns from this package: the command `serve`. Every keeper loads this module, so it imports
nothing that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import agh

if TYPE_CHECKING:
    import click


@agh.hookimpl
def agh_register_commands(group: click.Group) -> None:
    from agh_serve.command import serve_command

    group.add_command(serve_command)
