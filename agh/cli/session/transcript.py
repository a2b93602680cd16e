"""`agh session transcript`"""

from __future__ import annotations

import click

from agh.console import terminal
from agh.console.output import output_option, write_json, write_text, write_utf8
from agh.core.events import timestamp
from agh.store import sessions
from agh.store.views import messages, session_view


@click.command(
    "transcript",
    epilog="\b\nExamples:\n  agh session transcript @last\n"
    "  agh session transcript @last -o html > session.html\n"
    "  agh session transcript @last -o json | jq -r '.messages[-1].content'",
)
@click.argument("id")
@click.option("--full", is_flag=True, help="On a terminal: do not shorten tool output and diffs.")
@click.option("--no-pager", is_flag=True, help="On a terminal: never use $PAGER.")
@output_option("human", "text", "markdown", "html", "json", "jsonl")
def transcript_command(id: str, full: bool, no_pager: bool, output: str) -> None:
    """Print the conversation.

    On a terminal it looks as it did live, and opens in $PAGER (less) if it is longer than the screen. In a
    pipe, -o human is the same as -o text.
    """
    session = sessions.resolve(id)
    if output == "human" and terminal.is_fancy():
        from agh.cli.look.page import show_conversation

        show_conversation(session, full=full, use_pager=not no_pager)
        return
    conversation = messages(session)
    if output == "json":
        write_json({"messages": conversation})
    elif output == "jsonl":
        for message in conversation:
            write_json(message, lines=True)
    elif output == "html":
        from agh.adapters.html_page import page

        write_utf8(page(session_view(session), conversation, generated_at=timestamp()))
    elif output == "markdown":
        from agh.core.markdown import markdown

        write_text(terminal.clean(markdown(conversation)))
    else:
        from agh.core.markdown import plain

        write_text(terminal.clean(plain(conversation)))
