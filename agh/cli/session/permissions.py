"""`agh session permissions`, `approve` and `deny`"""

from __future__ import annotations

from typing import Any

import click

from agh.console import terminal
from agh.console.output import output_option, remark, write_result
from agh.errors import AghError
from agh.sessions.requests.permissions import choose_request, decide, requests
from agh.store import sessions

LONGEST, DIFF_LINES = 4000, 200


@click.command("permissions", epilog="Example:  agh session permissions @last")
@click.argument("id")
@click.option("--all", "everything", is_flag=True, help="Include requests that are already decided.")
@output_option()
def permissions_command(id: str, everything: bool, output: str) -> None:
    """List a session's open permission requests.

    Each request starts with what would happen: the action, the full command, every path and the diff. The
    agent's own description comes last.
    """
    rows = requests(sessions.resolve(id), everything)
    write_result("permissions", rows, output, lambda: "\n".join(map(format_request, rows)))


@click.command("approve", epilog="Example:  agh session approve @last")
@click.argument("id")
@click.argument("request", required=False)
@click.option(
    "--always", is_flag=True, help="Give this answer to similar requests too, if the agent offers that."
)
@output_option()
def approve_command(id: str, request: str | None, always: bool, output: str) -> None:
    """Allow a permission request; name REQUEST if several are open."""
    _decide(id, request, "allow_always" if always else "allow", output)


@click.command("deny", epilog="Example:  agh session deny @last")
@click.argument("id")
@click.argument("request", required=False)
@click.option(
    "--always", is_flag=True, help="Give this answer to similar requests too, if the agent offers that."
)
@output_option()
def deny_command(id: str, request: str | None, always: bool, output: str) -> None:
    """Deny a permission request; name REQUEST if several are open."""
    _decide(id, request, "deny_always" if always else "deny", output)


def _decide(id: str, request_id: str | None, verdict: str, output: str) -> None:
    session = sessions.resolve(id)
    try:
        request = choose_request(session, request_id)
        receipt = decide(session, request, verdict)
    except AghError as error:
        if output == "human" and error.code.startswith("permission_"):
            for row in requests(session, everything=False):
                remark(format_request(row))
        raise
    receipt |= {key: request[key] for key in ("about", "command", "paths", "title")}
    write_result("permission", receipt, output, lambda: _format_receipt(request, verdict, receipt))


def _format_receipt(request: dict[str, Any], verdict: str, receipt: dict[str, Any]) -> str:
    """Say which option of the agent was chosen, and what it allowed or refused."""
    from agh.cli.approval import describe_decision

    return f"{receipt['request_id']}  {describe_decision(request, verdict, receipt['decision'], None)}"


def format_request(row: dict[str, Any]) -> str:
    """Return a request as lines for a terminal: its id and what it is about, then the details."""
    status = row["status"] if row["decision"] is None else f"{row['decision']} by {row['decided_by']}"
    about, *details = row["description"]
    lines = [f"{row['request_id']}  {status}  {terminal.one_line(about, LONGEST)}"]
    if row["rule"]:
        lines.append(f"    by the rule: {terminal.one_line(row['rule'], LONGEST)}")
    if len(details) > DIFF_LINES + 1:
        details = [*details[:DIFF_LINES], f"… {len(details) - DIFF_LINES - 1} more lines", details[-1]]
    return "\n".join([*lines, *(f"    {terminal.one_line(line, LONGEST)}" for line in details)])
