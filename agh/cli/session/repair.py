"""`agh session repair`"""

from __future__ import annotations

import sys
from typing import Any

import click

from agh.console import terminal
from agh.console.output import output_option, remark, write_json, write_text
from agh.console.progress import progress
from agh.core.events import timestamp
from agh.core.status import KEEPER_VANISHED
from agh.errors import DataDamaged, Usage
from agh.home import session_of
from agh.sessions.repair import Report, repair, repair_each
from agh.store import sessions
from agh.store.create import delete_leftovers


@click.command(
    "repair",
    epilog="\b\nExamples:\n  agh session repair @last --dry-run\n"
    "  agh session repair --all -o jsonl | jq -r 'select(.error).session_id'",
)
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Every session that is not live; good for cron.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--force", is_flag=True, help="Also check sessions that stopped cleanly.")
@output_option()
def repair_command(id: str | None, everything: bool, dry_run: bool, force: bool, output: str) -> None:
    """Close turns, tool calls and requests that a crash left open.

    A repair only appends to the log, all or nothing, and is safe to run repeatedly. With --all, it also
    deletes sessions that were killed while they were being created. If a log is lost or damaged, the session
    needs manual attention: agh names it on stderr and exits 8.
    """
    if (id is None) != everything:
        raise Usage("name a session, or use --all", hint="agh session repair --all --dry-run")
    if id is not None:
        report = repair(sessions.resolve(id), dry_run=dry_run, force=force)
        _print([report], output, single=True)
        return
    if not dry_run:
        delete_leftovers()
    listed = sessions.all_sessions()
    reports = list(repair_each(progress(listed, "repairing", len(listed)), dry_run=dry_run, force=force))
    _print(reports, output)
    if not dry_run and not sys.stderr.isatty():
        _notify(reports)
    damaged = [report for report in reports if "error" in report]
    if damaged and not (output == "human" and terminal.is_terminal()):  # else it is on the screen already
        for report in damaged:
            remark(f"{report['session_id']}  {terminal.one_line(_describe(report), 2000)}")
    if damaged:
        raise click.exceptions.Exit(DataDamaged.exit)


def _notify(reports: list[Report]) -> None:
    """Notify of the sessions whose keepers were killed: nobody is at a terminal to see it."""
    vanished = [
        report["session_id"]
        for report in reports
        if any(action["code"] == "fix_metadata" for action in report["actions"])
    ]
    if vanished:
        from agh.sessions.requests.notify import Failure, notify_failures

        notify_failures([Failure(session_of(id), KEEPER_VANISHED, timestamp()) for id in vanished])


def _print(reports: list[Report], output: str, single: bool = False) -> None:
    if output == "human":
        write_text(
            "".join(
                f"{report['session_id']}  {terminal.one_line(_describe(report), 2000)}\n"
                for report in reports
            )
        )
    elif output == "json":
        write_json(reports[0] if single else {"repairs": reports})
    else:
        for report in reports:
            write_json(report, lines=True)


def _describe(report: dict[str, Any]) -> str:
    if "skipped" in report:
        return f"skipped: {report['skipped']}"
    if "error" in report:
        return f"agh cannot repair it: {report['error']['message']}"
    if not report["actions"]:
        return "ok"
    details = "; ".join(issue["detail"] for issue in report["issues"])
    return ("repaired: " if report["persisted"] else "would repair: ") + details
