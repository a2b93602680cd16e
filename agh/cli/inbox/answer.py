"""`agh inbox answer`"""

from __future__ import annotations

import click

from agh.cli.inbox.view import reference
from agh.cli.session.questions import answer_command as answer_of_session
from agh.console.output import output_option
from agh.errors import Usage
from agh.sessions.requests.inbox import find_entry


@click.command(
    "answer",
    epilog="\b\nExamples:\n  agh inbox answer 3\n  agh inbox answer 3 colour=blue\n"
    "  agh inbox answer ques-1a2b3c4d --decline",
)
@click.argument("entry")
@click.argument("values", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--accept", "decision", flag_value="accepted", help="Accept, with these fields.")
@click.option("--decline", "decision", flag_value="declined", help="Decline to answer; the agent continues.")
@click.option("--cancel", "decision", flag_value="cancelled", help="Dismiss it; the agent may stop.")
@output_option()
def answer_command(entry: str, values: tuple[str, ...], decision: str | None, output: str) -> None:
    """Answer a question in the inbox.

    ENTRY is a number from the list, or the id of a question. `agh help session answer` explains FIELD=VALUE.
    On a terminal, give no fields and agh asks for each.
    """
    row = find_entry(entry)
    if row["kind"] != "question" or row["request"] is None:
        raise Usage(f"entry {reference(row)} is not a question", hint=row["next"][0])
    assert answer_of_session.callback is not None
    answer_of_session.callback(row["session_id"], row["request"]["request_id"], values, decision, output)
