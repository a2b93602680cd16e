"""Command groups whose commands are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from agh.core.suggest import closest
from agh.errors import Usage


class LazyGroup(click.Group):
    """Imports a command when it is used.

    `modules` maps its name to "module:attribute"; `more` adds commands when a name is not among them.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str],
        more: Callable[[click.Group], None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules
        self._more = more

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._add_more()
        return sorted({*super().list_commands(ctx), *self.modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        path = self.modules.get(cmd_name)
        if path is None:
            self._add_more()
            return super().get_command(ctx, cmd_name)
        module, _, attribute = path.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def _add_more(self) -> None:
        more, self._more = self._more, None
        if more is not None:
            more(self)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise unknown_command(ctx, name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def unknown_command(ctx: click.Context, name: str, commands: list[str]) -> Usage:
    hint = f"{ctx.command_path} {closest(name, commands) or '--help'}"
    return Usage(f"{ctx.command_path} has no command {name!r}", hint=hint)
