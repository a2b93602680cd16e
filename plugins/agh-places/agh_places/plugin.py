"""The hooks by which agh starts an agent, or runs a command of its own, in a place.

They import nothing until a place is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import agh

if TYPE_CHECKING:
    from agh.adapters.far_command import FarCommand
    from agh.adapters.launch import Launch


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
