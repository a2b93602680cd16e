"""`agh session last`"""

from __future__ import annotations

import click

from agh.console import terminal
from agh.console.output import output_option, remark, write_result, write_text
from agh.core.markdown import last_code
from agh.errors import AnswerMissing
from agh.home import Session
from agh.store import milestones, sessions
from agh.store.reader import Reader
from agh.store.views import messages

NEAR = 20  # messages from the end, in which the answer nearly always is


@click.command(
    "last",
    epilog="\b\nExamples:\n  agh session last --copy\n  agh session last fix-login --code > patch.py",
)
@click.argument("id", default="@last")
@click.option("--code", is_flag=True, help="Only the last code block of the answer.")
@click.option("--copy", "to_clipboard", is_flag=True, help="Put it on the clipboard instead of printing it.")
@click.option("--no-pager", is_flag=True, help="On a terminal: never use $PAGER.")
@output_option("human", "text", "json", "jsonl")
def last_command(id: str, code: bool, to_clipboard: bool, no_pager: bool, output: str) -> None:
    """Print the agent's last answer in a session (default: @last).

    On a terminal the answer is rendered, and opens in $PAGER (less) if it is longer than the screen. In a
    pipe it is the agent's text, unchanged.
    """
    session = sessions.resolve(id)
    message = _last_answer(session)
    text = str(message["content"]) if message else ""
    if code:
        text = last_code(text) or ""
    if not text.strip():
        raise AnswerMissing(session.id, "code in its last answer" if message and code else "answer yet")
    if to_clipboard:
        from agh.console.clipboard import copy

        remark(f"copied {len(text)} characters with {copy(text)}")
    elif output in ("json", "jsonl"):
        write_result("message", message, output, str)
    elif output == "human" and terminal.is_fancy() and not code:
        from agh.cli.look.page import show_answer

        show_answer(text, use_pager=not no_pager)
    else:
        text = text if text.endswith("\n") else f"{text}\n"
        write_text(terminal.clean(text) if terminal.is_terminal() else text)


def _last_answer(session: Session) -> dict[str, object] | None:
    """Return the last message with words of the agent; None if there is none."""
    with Reader(session) as reader:
        near = milestones.tail(reader, NEAR)[1]
    return _newest(near) or _newest(messages(session))


def _newest(conversation: list[dict[str, object]]) -> dict[str, object] | None:
    answers = (message for message in reversed(conversation) if message["role"] == "assistant")
    return next((message for message in answers if str(message["content"]).strip()), None)
