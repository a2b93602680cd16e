"""The hooks of this plugin: they register the command `agh council` and the session kind of a council."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import agh
from agh.home import Session

if TYPE_CHECKING:
    import click

    from agh.adapters.kinds import Kind

KIND = "council"


@agh.hookimpl
def agh_register_commands(group: click.Group) -> None:
    from agh_council.commands import council

    group.add_command(council)


@agh.hookimpl
def agh_register_kinds(register: Callable[[Kind], None]) -> None:
    from agh.adapters.kinds import Kind

    def checkpoint(session: Session, elapsed: float | None) -> dict[str, Any]:
        from agh_council.checkpoint import derive

        return derive(session, elapsed)

    register(Kind(KIND, "agh_council.keeper", checkpoint))
