"""`agh session attach`: a session on a terminal.

A terminal that can move its cursor gets the chat. Others get lines, as does TERM=dumb.
"""

from __future__ import annotations

import sys

import click

from agh.console import terminal
from agh.console.output import remark
from agh.console.terminal import default_holder
from agh.console.when import parse_duration
from agh.errors import Usage
from agh.store import lock, sessions


@click.command("attach", epilog="Example:  agh session attach @last")
@click.argument("id")
@click.option("--holder", help="Name under which you hold the session (default: this terminal).")
@click.option(
    "--ttl",
    metavar="TIME",
    help="Reserve the session for this long, at most 24h, even if this "
    "terminal closes (default: until it closes).",
)
@click.option("--steal", is_flag=True, help="Take over from another terminal or script.")
def attach_command(id: str, holder: str | None, ttl: str | None, steal: bool) -> None:
    """Chat with a session on this terminal.

    Shows the last turn, then live output above an input line. Enter sends; while a turn is running, the
    prompt is queued. Alt-Enter starts a new line, Ctrl-O opens your editor, @FILE attaches a file, Tab
    completes, and /help lists the rest. Prompts from elsewhere are shown too.

    Ctrl-C cancels the turn; press it again to detach. Ctrl-D detaches, and the agent keeps working. Nobody
    else can attach while you are attached. With TERM=dumb it reads and prints plain lines.
    """
    if not (sys.stdin.isatty() and terminal.is_terminal()):
        raise Usage("attach needs a terminal", hint=f"agh session prompt {id} TEXT")
    session, holder = sessions.resolve(id), holder or default_holder()
    seconds = parse_duration(ttl, "--ttl") if ttl else None
    if terminal.is_fancy():
        from agh.cli.chat.start import chat

        session = chat(session, holder, seconds, steal)
    else:
        from agh.cli.chat.joining import hold_session
        from agh.cli.chat.lines import converse

        with hold_session(session, holder, seconds, steal) as lease:
            converse(session, lease)
    remark(f"detached; the session {'stays live' if lock.is_held(session) else 'has stopped'}")
