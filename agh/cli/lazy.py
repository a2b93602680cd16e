"""Command groups whose commands are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from agh.errors import Usage

WIDEST = 11  # the longest name of a command: the summaries of all sections begin in the same column
SUMMARY = 78 - 2 - WIDEST - 2  # what is left for a summary on a line of 80 columns, as click counts them


def build_flag(short: str, long: str, help: str, text: Callable[[click.Context], str]) -> click.Option:
    """Build an option that shows a text and exits.

    Those of click look for a translation of their help, and import `locale` to do so (1 ms).
    """

    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(text(context), color=context.color)
            context.exit()

    return click.Option(
        [short, long], is_flag=True, is_eager=True, expose_value=False, help=help, callback=show
    )


HELP = build_flag("-h", "--help", "Show this message and exit.", click.Context.get_help)


class LazyGroup(click.Group):
    """Imports a command when it is used.

    `modules` maps its name to "module:attribute"; `more` adds commands when a name is not among them.
    `short` maps second names to commands in the same way; these work, but are not listed as commands.
    `sections` are the headings of the help, each with its commands; "list, ls" is one command of two names.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str],
        more: Callable[[click.Group], None] | None = None,
        short: Mapping[str, str] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(HELP)
        self.modules = modules
        self.short = short or {}
        self._sections = sections or {}
        self._more = more

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._add_more()
        return sorted({*super().list_commands(ctx), *self.modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        path = self.modules.get(cmd_name) or self.short.get(cmd_name)
        if path is None:
            self._add_more()
            return super().get_command(ctx, cmd_name)
        module, _, attribute = path.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        if HELP not in command.params:
            command.params.append(HELP)
        return command

    def _add_more(self) -> None:
        more, self._more = self._more, None
        if more is not None:
            more(self)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise unknown_command(ctx, args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        in_sections = {name for names in self._sections.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in in_sections]
        for title, names in {**self._sections, "Commands": others}.items():
            self._format_section(ctx, formatter, title, names)

    def _format_section(
        self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Sequence[str]
    ) -> None:
        rows = []
        for name in names:
            command = self.get_command(ctx, name.partition(",")[0])
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(SUMMARY)))
        if rows:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(WIDEST), text) for name, text in rows])


def unknown_command(ctx: click.Context, words: Sequence[str]) -> Usage:
    """Return the error for words that begin with no command of the group, with what was probably meant."""
    from agh.cli.guide.suggestion import suggest

    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    path = ctx.command_path.split()[1:]
    return Usage(f"{ctx.command_path} has no command {words[0]!r}", hint=suggest(root, [*path, *words]))
