"""The hooks by which agh learns of the command `acp`, and `agh serve` of `/acp`. Every keeper loads this
module, so it imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import agh

if TYPE_CHECKING:
    import click

    from agh.adapters.web import WebApplication


@agh.hookimpl
def agh_register_commands(group: click.Group) -> None:
    from agh_acp.command import acp_command

    group.add_command(acp_command)


@agh.hookimpl
def agh_register_web_applications(register: Callable[[WebApplication], None]) -> None:
    from agh.adapters.web import WebApplication
    from agh_acp.web.application import Application

    application = Application()
    register(WebApplication("/acp", application, application.close))
