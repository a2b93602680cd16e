"""`agh session queue`"""

from __future__ import annotations

from typing import Any

import click

from agh.cli.turn import send_and_tell, show_turns
from agh.console import terminal
from agh.console.output import columns, output_option, write_result
from agh.sessions.queue import cancel_inputs, read_inputs, read_prompt
from agh.store import sessions


@click.group("queue", epilog="Example:  agh session queue list @last")
def queue_command() -> None:
    """Show and change a session's queued prompts."""


@queue_command.command("list", epilog="Example:  agh session queue list @last")
@click.argument("id")
@click.option("--all", "everything", is_flag=True, help="Include prompts that were sent.")
@output_option()
def list_inputs(id: str, everything: bool, output: str) -> None:
    """List prompts that are queued or were interrupted."""
    rows = read_inputs(sessions.resolve(id), everything)
    write_result("inputs", rows, output, lambda: _table(rows))


@queue_command.command("cancel", epilog="Example:  agh session queue cancel @last 3")
@click.argument("id")
@click.argument("number", type=int)
@output_option()
def cancel_input(id: str, number: int, output: str) -> None:
    """Cancel one queued prompt."""
    _cancel(id, number, output)


@queue_command.command("clear", epilog="Example:  agh session queue clear @last")
@click.argument("id")
@output_option()
def clear(id: str, output: str) -> None:
    """Cancel all queued prompts."""
    _cancel(id, None, output)


@queue_command.command("retry", epilog="Example:  agh session queue retry @last 3")
@click.argument("id")
@click.argument("number", type=int)
@click.option("--park", is_flag=True, help="At a usage limit, keep the prompt in the queue until it resets.")
@output_option("human", "text", "json", "jsonl")
def retry(id: str, number: int, park: bool, output: str) -> None:
    """Resend a prompt that was interrupted or cancelled, or failed."""
    session = sessions.resolve(id)
    receipt = send_and_tell(session, read_prompt(session, number), park=park)
    raise click.exceptions.Exit(show_turns(session, receipt, output))


def _cancel(id: str, number: int | None, output: str) -> None:
    cancelled = cancel_inputs(sessions.resolve(id), number)
    write_result("cancelled", cancelled, output, lambda: "\n".join(map(str, cancelled)))


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    cells = [
        (str(row["id"]), row["status"], row["mode"], terminal.one_line(_text(row["prompt"]), 80))
        for row in rows
    ]
    return columns(("NUMBER", "STATUS", "MODE", "PROMPT"), cells)


def _text(prompt: list[dict[str, Any]]) -> str:
    return " ".join(str(block.get("text") or f"[{block.get('type')}]") for block in prompt)
