"""`agh run`: one prompt in a session of its own."""

from __future__ import annotations

from typing import Any

import click

from agh.cli.session.new import agent_options, new_session
from agh.cli.session.prompt import attachments, prompt_blocks, prompt_options
from agh.cli.turn import TimeLimit, show_turn
from agh.console.attachments import check_file
from agh.console.when import span
from agh.keeper import client
from agh.sessions.stop import stop_session
from agh.store import sessions


@click.command(
    "run",
    epilog="\b\nExamples:\n  agh run 'explain the failing test' -o text\n"
    "  agh run --file task.md --agent codex --timeout 10m --permissions deny-all\n"
    "  agh run - --keep < task.md",
)
@agent_options
@prompt_options
@click.option("--keep", is_flag=True, help="Leave the session live afterwards.")
def run(
    text: str | None,
    file: Any,
    attach: tuple[str, ...],
    timeout: str | None,
    retries: int,
    no_ask: bool,
    keep: bool,
    output: str,
    **options: Any,
) -> None:
    """Start a session, send one prompt, show the turn, stop. Exits as the turn ended.

    The session stays in the list: resume it to go on.
    """
    blocks = prompt_blocks(text, file)
    seconds = span(timeout, "--timeout") if timeout else None
    for path in attach:
        check_file(path)
    session = sessions.resolve(new_session(name=None, **options)["id"])
    try:
        with TimeLimit(seconds) as limit:
            blocks += attachments(attach, session)
            receipt = client.call(session, "prompt", prompt=blocks, retries=retries)
            code = show_turn(session, receipt, output, limit, refuse=no_ask)
    finally:
        if not keep:
            stop_session(session, kill=True)
    raise click.exceptions.Exit(code)
