"""Printing how an act on many sessions went, for `stop --all` and `resume --all`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from agh.console import terminal
from agh.console.output import remark, write_json, write_text
from agh.sessions.many import Outcome
from agh.store.views import View


def print_outcomes(outcomes: Iterable[Outcome], output: str, if_none: str) -> None:
    """Print each outcome as it comes; exit with the number of the first failure, if there is one."""
    exit_number, failures, records = 0, 0, []
    for session, view, error in outcomes:
        if error is not None:
            exit_number, failures = exit_number or error.exit, failures + 1
            remark(f"{session.id}  {terminal.one_line(error.message, 2000)}")
        record = view or {"id": session.id, "error": error.as_dict() if error else None}
        records.append(record)
        if output == "jsonl":
            write_json(record, lines=True)
        elif output == "human" and view:
            write_text(f"{session.id}  {_describe(view)}\n")
    if output == "json":
        write_json({"sessions": records})
    if not records:
        remark(if_none)
    if failures and len(records) > 1:
        remark(f"{failures} of {len(records)} failed")
    if exit_number:
        raise click.exceptions.Exit(exit_number)


def _describe(view: View) -> str:
    """Return a session's badge, and its name if it has one."""
    return "  ".join(terminal.one_line(text, 200) for text in (view["badge"], view.get("name")) if text)
