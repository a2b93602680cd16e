"""The hook by which agh starts an agent in a place. It imports nothing until a place is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import agh

if TYPE_CHECKING:
    from agh.adapters.launch import Launch


@agh.hookimpl
def agh_prepare_launch(launch: Launch) -> None:
    if launch.place and not launch.elsewhere:
        from agh_places.place import redirect_launch

        redirect_launch(launch)
