"""The command `agh acp`: keep stdout for the protocol, and serve; or print an editor's settings."""

from __future__ import annotations

import os
import shlex

import click

from agh.config import PERMISSION_MODES
from agh.console.output import write_text
from agh.errors import Usage
from agh_acp.snippets import EDITORS, snippet


@click.command("acp", epilog="Example:  agh acp --agent opencode")
@click.option("--agent", metavar="NAME", help="Agent for new sessions (default: the first one installed).")
@click.option("--command", metavar="ARGV", help="Start this program as the agent, e.g. 'opencode acp'.")
@click.option(
    "--on", "place", metavar="PLACE", help="Run agents in this place, e.g. ssh:HOST; see agh-places(7)."
)
@click.option("--permissions", type=click.Choice(PERMISSION_MODES), help="What agents may do without asking.")
@click.option("--keep-mcp", is_flag=True, help="Store the editor's MCP servers with new sessions.")
@click.option(
    "--print-config", "editor", type=click.Choice(EDITORS), help="Print the settings for this editor."
)
def acp_command(
    agent: str | None,
    command: str | None,
    place: str | None,
    permissions: str | None,
    keep_mcp: bool,
    editor: str | None,
) -> None:
    """Run as an ACP agent for an editor, on stdin and stdout.

    Each thread in the editor is an agh session. It survives when the editor is closed, and shows its whole
    history when you open it again, whichever agent it uses. The editor also lists sessions started elsewhere.
    """
    argv = _split(command)
    if editor is not None:
        options = [
            ("--agent", agent),
            ("--command", command),
            ("--on", place),
            ("--permissions", permissions),
        ]
        arguments = ["acp", *(word for name, value in options if value for word in (name, value))]
        write_text(snippet(editor, [*arguments, *(["--keep-mcp"] if keep_mcp else [])]))
        return
    from agh_acp.connection import Options
    from agh_acp.server import serve

    sink = os.dup(1)  # nothing else may write to the protocol's stream
    os.dup2(2, 1)
    serve(0, sink, Options(agent, argv, place, permissions, keep_mcp))


def _split(command: str | None) -> list[str] | None:
    if command is None:
        return None
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise Usage(f"--command: {error}") from None
    if not argv:
        raise Usage("--command: it is empty")
    return argv
