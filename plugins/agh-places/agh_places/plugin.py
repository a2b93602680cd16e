"""The hooks by which agh starts an agent, runs a command of its own, or has a session kept, in a place.

They import nothing until a place is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import agh

if TYPE_CHECKING:
    import click

    from agh.adapters.far_command import FarCommand
    from agh.adapters.kinds import Kind
    from agh.adapters.launch import Launch
    from agh.home import Session


@agh.hookimpl
def agh_prepare_launch(launch: Launch) -> None:
    if launch.place and not launch.elsewhere:
        from agh_places.place import redirect_launch

        redirect_launch(launch)


@agh.hookimpl
def agh_prepare_far_command(command: FarCommand) -> None:
    if not command.argv:
        from agh_places.place import redirect_command

        redirect_command(command)


@agh.hookimpl
def agh_register_kinds(register: Callable[[Kind], None]) -> None:
    from agh.adapters.kinds import Kind
    from agh.sessions.elsewhere.pulled import KIND

    def checkpoint(session: Session, elapsed: float | None) -> dict[str, Any]:
        from agh.errors import SessionMirrored

        raise SessionMirrored(session.id)

    register(Kind(KIND, "agh_places.mirror_keeper", checkpoint))


@agh.hookimpl
def agh_register_commands(group: click.Group) -> None:
    from agh_places.command import relay

    group.add_command(relay)
