"""`agh inbox approve` and `deny`: permissions, and the gates of councils"""

from __future__ import annotations

from typing import Any

import click

from agh.cli.inbox.view import KIND_WORDS, reference
from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.errors import AghError, Usage
from agh.home import session_of
from agh.sessions.requests.inbox import Entry, find_entry
from agh.sessions.requests.permissions import decide


@click.command("approve", epilog="\b\nExamples:\n  agh inbox approve 3\n  agh inbox approve 3 4 7 --always")
@click.argument("entries", nargs=-1, required=True)
@click.option(
    "--always", is_flag=True, help="Give this answer to similar requests too, if the agent offers that."
)
@output_option()
def approve_command(entries: tuple[str, ...], always: bool, output: str) -> None:
    """Allow what ENTRIES ask for: permissions or council gates.

    ENTRIES are numbers from the list, or ids of requests. If one of them is no longer open, none is answered.
    """
    _decide(entries, "allow_always" if always else "allow", None, output)


@click.command("deny", epilog="\b\nExamples:\n  agh inbox deny 3\n  agh inbox deny 5 --feedback 'too vague'")
@click.argument("entries", nargs=-1, required=True)
@click.option(
    "--always", is_flag=True, help="Give this answer to similar requests too, if the agent offers that."
)
@click.option("--feedback", metavar="TEXT", help="For a gate: what is wrong; the members see it.")
@output_option()
def deny_command(entries: tuple[str, ...], always: bool, feedback: str | None, output: str) -> None:
    """Deny what ENTRIES ask for: permissions or council gates.

    ENTRIES are numbers from the list, or ids of requests. If one of them is no longer open, none is answered.
    """
    _decide(entries, "deny_always" if always else "deny", feedback, output)


def _decide(references: tuple[str, ...], verdict: str, feedback: str | None, output: str) -> None:
    entries = [find_entry(name) for name in references]
    for entry in entries:
        _check(entry, verdict, feedback)
    receipts, failure = [], None
    for entry in entries:
        try:
            receipts.append(answer_entry(entry, verdict, feedback))
        except AghError as error:
            failure = failure or error
    write_result("answers", receipts, output, lambda: "\n".join(map(_format_receipt, receipts)))
    if failure is not None:
        raise failure


def answer_entry(entry: Entry, verdict: str, feedback: str | None = None) -> dict[str, Any]:
    """Answer exactly this permission or gate, and return the receipt."""
    if entry["kind"] == "gate":
        receipt = {"decision": _decide_gate(entry, verdict, feedback)}
    else:
        assert entry["request"] is not None
        receipt = decide(session_of(entry["session_id"]), entry["request"], verdict)
    names = ("number", "key", "kind", "session_id", "name", "about")
    return {**{name: entry[name] for name in names}, **receipt}  # type: ignore[literal-required]


def _check(entry: Entry, verdict: str, feedback: str | None) -> None:
    """Raise Usage if this entry cannot be answered so."""
    if entry["kind"] not in ("permission", "gate"):
        problem = f"entry {reference(entry)} is {KIND_WORDS[entry['kind']]}; you cannot allow or deny it"
        raise Usage(problem, hint=entry["next"][0])
    if entry["kind"] == "gate" and verdict.startswith("deny") and not feedback:
        raise Usage("rejecting a gate needs --feedback: say what is wrong", hint=entry["next"][1])
    if entry["kind"] == "permission" and feedback:
        raise Usage(
            f"entry {reference(entry)} is a permission request; --feedback is only for gates",
            hint=entry["next"][1],
        )


def _decide_gate(entry: Entry, verdict: str, feedback: str | None) -> str:
    """Decide at a gate by the command of its plugin, which checks that it is still this gate."""
    from agh.cli.main import root

    sequence = entry["key"].rpartition("-")[2]
    words = ["council", "gate", "approve" if verdict.startswith("allow") else "reject", entry["session_id"]]
    words += ["--sequence", sequence, "--detach"]
    if feedback and verdict.startswith("deny"):
        words += ["--feedback", feedback]
    with root.make_context("agh", words) as context:
        root.invoke(context)
    return "allowed" if verdict.startswith("allow") else "denied"


def _format_receipt(receipt: dict[str, Any]) -> str:
    label = receipt["name"] or receipt["session_id"]
    shown = receipt["key"] if receipt["number"] is None else receipt["number"]
    return f"{shown}  {receipt['decision']}  {label}  {terminal.one_line(receipt['about'], 400)}"
