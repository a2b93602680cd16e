"""`agh help` and `agh version`, for those who type words rather than options"""

from __future__ import annotations

import click

from agh import __version__
from agh.console.output import write_text


@click.command("help", epilog="\b\nExamples:\n  agh help prompt\n  agh help session queue")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def help_command(words: tuple[str, ...]) -> None:
    """Show the help of a command. `agh help prompt` is `agh prompt --help`."""
    context = click.get_current_context().find_root()
    command = context.command
    for number, word in enumerate(words):
        if not isinstance(command, click.Group):
            break
        # Its own error for a word that it does not know, with what was probably meant.
        name, below, _ = command.resolve_command(context, list(words[number:]))
        if below is None:
            break
        command, context = below, click.Context(below, parent=context, info_name=name or word)
    write_text(command.get_help(context) + "\n")


@click.command("version", epilog="Example:  agh version")
def version_command() -> None:
    """Print the version. The same as `agh --version`."""
    write_text(f"agh {__version__}\n")
