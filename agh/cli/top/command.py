"""`agh top`"""

from __future__ import annotations

import sys

import click

from agh.console import terminal
from agh.errors import Usage


@click.command("top", epilog="\b\nExamples:\n  agh top\n  agh top --workspace .")
@click.option("-a", "--all", "everything", is_flag=True, help="Include old and archived sessions.")
@click.option("--workspace", metavar="W", help="Only sessions of this workspace: a name, an id or a path.")
def top(everything: bool, workspace: str | None) -> None:
    """Watch all sessions on one screen, and answer their requests.

    Sessions that need you come first. Below the list is the selected session's open request, or its last
    message.

    \b
      arrows, j, k   select a session
      Enter          attach to it; Ctrl-D comes back
      a, d           show its request and the diff, then allow or deny it
      n              start a session: agent, directory, first prompt
      s              stop the selected session
      /              show only sessions with these words; Esc shows all again
      ?, q           help, quit

    The sessions continue when you quit. It sends the same notifications as `agh inbox --watch`.
    """
    if not (sys.stdin.isatty() and terminal.is_fancy()):
        raise Usage("agh top needs a terminal", hint="agh list, or agh inbox")
    from agh.cli.top.reader import SessionReader
    from agh.cli.top.screen import Screen

    Screen(SessionReader(everything=everything, workspace=workspace)).run()
