"""`agh session questions` and `answer`"""

from __future__ import annotations

from typing import Any

import click

from agh.cli.question_form import LONGEST, answer_hint, ask_question, show_link, tell_answered
from agh.console import terminal
from agh.console.output import output_option, remark, write_result
from agh.errors import AghError, Usage
from agh.sessions.requests.questions import answer, choose_question, open_questions, questions
from agh.store import sessions


@click.command("questions", epilog="Example:  agh session questions @last")
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Include questions that are already answered.")
@output_option()
def questions_command(id: str | None, everything: bool, output: str) -> None:
    """List agents' questions that you can answer.

    Without ID, lists those of all sessions. A question is `orphaned` if its session ended before you
    answered. You can still answer it: agh resumes the session and sends the question and the answer as a
    prompt.
    """
    if id is None and everything:
        raise Usage("--all needs the ID of a session", hint="agh session questions ID --all")
    rows = open_questions() if id is None else questions(sessions.resolve(id), everything)
    write_result("questions", rows, output, lambda: "\n".join(map(format_question, rows)))


@click.command(
    "answer",
    epilog="\b\nExamples:\n  agh session answer @last\n"
    "  agh session answer @last colour=blue\n"
    "  agh session answer fix-login ques-1a2b3c4d size=3 sure=yes\n"
    "  agh session answer @last --decline",
)
@click.argument("id")
@click.argument("request", required=False)
@click.argument("values", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--accept", "decision", flag_value="accepted", help="Accept, with these fields.")
@click.option("--decline", "decision", flag_value="declined", help="Decline to answer; the agent continues.")
@click.option("--cancel", "decision", flag_value="cancelled", help="Dismiss it; the agent may stop.")
@output_option()
def answer_command(
    id: str, request: str | None, values: tuple[str, ...], decision: str | None, output: str
) -> None:
    """Answer an agent's question; name REQUEST if several are open.

    VALUE is text, yes or no, or a choice, by its value or number; separate several choices with commas.
    Fields that you leave out get their defaults. On a terminal, give no fields and agh asks for each.
    """
    session = sessions.resolve(id)
    if request is not None and "=" in request:
        values, request = (request, *values), None
    content = _read_values(values)
    if content and decision not in (None, "accepted"):
        why = "FIELD=VALUE cannot be combined with --decline or --cancel"
        raise Usage(why, hint=f"agh session answer {id} --help")
    try:
        question = choose_question(session, request)
        if content or decision is not None:
            receipt = answer(session, question, decision or "accepted", content)
            tell_answered(receipt)
            if receipt["decision"] == "accepted" and question["mode"] == "url":
                show_link(question)
        else:
            receipt = _ask(question)
    except AghError as error:
        if output == "human" and error.code.startswith(("question_", "answer_")):
            for row in questions(session, everything=False):
                remark(format_question(row))
        raise
    words = terminal.one_line(question["message"], LONGEST)
    write_result(
        "question", receipt, output, lambda: f"{receipt['request_id']}  {receipt['decision']}  {words}"
    )


def format_question(row: dict[str, Any]) -> str:
    """Return a question as lines for a terminal: its id, its status and the agent's words, its fields."""
    is_open = row["decision"] in (None, "orphaned")
    status = row["status"] if is_open else f"{row['decision']} by {row['decided_by']}"
    first, *more = row["description"]
    lines = [f"{row['request_id']}  {status}  {terminal.one_line(first, LONGEST)}"]
    lines += [f"    {terminal.one_line(line, LONGEST)}" for line in more]
    if row["answer"]:
        pairs = ", ".join(f"{name}={value}" for name, value in row["answer"].items())
        lines.append(f"    answer: {terminal.one_line(pairs, LONGEST)}")
    if is_open:
        lines.append(f"    {answer_hint(row)}")
    return "\n".join(lines)


def _read_values(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the values by field; a field that is given again becomes a list."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Usage(f"{word!r} is not FIELD=VALUE", hint="agh session answer ID FIELD=VALUE")
        if isinstance(values.get(name), list):
            values[name].append(value)
        else:
            values[name] = [values[name], value] if name in values else value
    return values


def _ask(question: dict[str, Any]) -> dict[str, Any]:
    from agh.cli.ask import can_ask

    if not can_ask():
        raise Usage("say what to answer", hint=answer_hint(question))
    session = sessions.resolve(question["session_id"])
    remark(f"the agent asks: {terminal.one_line(question['message'], LONGEST)}")
    receipt = ask_question(session, question["request_id"])
    if receipt is None:
        raise click.exceptions.Exit(0)
    return receipt
