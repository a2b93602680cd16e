"""`agh inbox show`"""

from __future__ import annotations

import click

from agh.cli.inbox.view import format_entry
from agh.console.output import output_option, write_result
from agh.sessions.requests.inbox import find_entry


@click.command("show", epilog="Example:  agh inbox show 3")
@click.argument("entry")
@output_option()
def show_command(entry: str, output: str) -> None:
    """Show an entry in full, such as its whole diff.

    ENTRY is a number from the list, or the id of a request.
    """
    row = find_entry(entry)
    write_result("entry", row, output, lambda: format_entry(row, lines=None))
