"""`agh session recap`"""

from __future__ import annotations

import os
from typing import Any

import click

from agh.adapters.redactions import redactor_for
from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.console.when import parse_time
from agh.core.markdown import plain
from agh.core.recap import DEFAULT_LIMIT, MAX_LIMIT
from agh.store import meta, sessions
from agh.store.views import recap_view


@click.command("recap", epilog="Example:  agh session recap @last --limit 5")
@click.argument("id")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    metavar="N",
    default=DEFAULT_LIMIT,
    show_default=True,
    help="How many messages.",
)
@click.option("--at", metavar="TIME", help="Set generated_at to this time, for reproducible output.")
@output_option()
def recap_command(id: str, limit: int, at: str | None, output: str) -> None:
    """Show a short, redacted summary: last messages, pending work."""
    generated_at = parse_time(at, "--at") if at else None
    session = sessions.resolve(id)
    hide = redactor_for(os.environ, meta.read(session).get("workspace_path"))
    view = recap_view(session, limit, hide, generated_at)
    write_result("recap", view, output, lambda: describe(view))


def describe(view: dict[str, Any]) -> str:
    session, omitted = view["session"], view["omitted"]
    lines = [terminal.styled(f"{session['id']}  {session['badge']}", "title")]
    if omitted["messages"]:
        lines.append(terminal.styled(f"… {omitted['messages']} earlier messages", "muted"))
    lines += [terminal.clean(plain([message]).rstrip("\n")) for message in view["recent_messages"]]
    lines += [
        terminal.styled(
            terminal.clean(f"{marker.get('occurred_at')}  {marker.get('kind')}: {marker.get('summary')}"),
            "warning",
        )
        for marker in view["recent_markers"]
    ]
    waiting = [
        f"{view[key]} {word}"
        for key, word in (
            ("pending_inputs", "queued prompts"),
            ("pending_permissions", "permission requests"),
            ("pending_questions", "questions from the agent"),
        )
        if view[key]
    ]
    if waiting:
        lines.append("waiting: " + ", ".join(waiting))
    return "\n".join(lines)
