"""`agh inbox dismiss`"""

from __future__ import annotations

import click

from agh.cli.inbox.view import KIND_WORDS, reference
from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.core.waiting import DISMISSIBLE
from agh.errors import Usage
from agh.sessions.requests.inbox import dismiss, find_entry, list_entries


@click.command("dismiss", epilog="\b\nExamples:\n  agh inbox dismiss 3\n  agh inbox dismiss --all")
@click.argument("entries", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every failure and limit in the inbox.")
@output_option()
def dismiss_command(entries: tuple[str, ...], everything: bool, output: str) -> None:
    """Dismiss failures and limits that you have seen.

    A session is listed again if it fails or reaches a limit again. Requests that need an answer stay.
    """
    if bool(entries) == everything:
        raise Usage("give either entries or --all", hint="agh inbox dismiss --all")
    rows = list_entries() if everything else [find_entry(entry) for entry in entries]
    for row in rows:
        if not everything and row["kind"] not in DISMISSIBLE:
            kind = KIND_WORDS[row["kind"]]
            problem = f"entry {reference(row)} is {kind}; it needs an answer and cannot be dismissed"
            raise Usage(problem, hint=row["next"][0])
    dismissed = dismiss(rows)
    write_result(
        "dismissed",
        dismissed,
        output,
        lambda: "\n".join(
            f"{reference(row)}  dismissed  {terminal.one_line(row['about'], 400)}" for row in dismissed
        ),
    )
