"""`agh session due`"""

from __future__ import annotations

import sys

import click

from agh.console.output import columns, output_option, remark, write_result
from agh.console.when import clock
from agh.errors import DueFailed
from agh.home import session_of
from agh.sessions.parked.due import Parked, list_parked, run_due

KEYS_HINT = "put keys for cron in a private file: agh config set env.file PATH"


@click.command(
    "due",
    epilog="\b\nExamples:\n  agh session due\n  agh session due --run",
)
@click.option("--run", is_flag=True, help="Start the sessions whose limit has reset.")
@output_option()
def due_command(run: bool, output: str) -> None:
    """List sessions that are waiting for a usage limit to reset.

    With --run, for cron or a timer, starts those whose limit has reset. Each prompt is sent once, even if
    several of these commands run at the same time. Live sessions continue by themselves. Sessions that are
    paused or have an open question are skipped. See agh-cron(7).
    """
    rows = run_due() if run else list_parked()
    if run:
        _tell_problems(rows)
    results = [row for row in rows if not run or row["status"] in ("started", "failed")]
    write_result("due", results, output, lambda: _table(results))
    failed = [row for row in rows if row["status"] == "failed"]
    if failed:
        if not sys.stderr.isatty():
            _notify(failed)
        raise DueFailed(len(failed), len(rows))


def _tell_problems(rows: list[Parked]) -> None:
    """Say what keeps a session from being started, and what its agent may miss."""
    for row in rows:
        if row["error"] is not None:
            remark(f"{row['session_id']}: {row['error']['message']}; {row['error']['hint']}")
        if row["missing"] and row["status"] in ("started", "failed"):
            names = ", ".join(row["missing"])
            remark(
                f"{row['session_id']}: these variables were set when its prompt was parked "
                f"but are not set now: {names}; {KEYS_HINT}"
            )


def _notify(rows: list[Parked]) -> None:
    """Notify of the sessions that could not be started: nobody is at a terminal to see it."""
    from agh.sessions.requests.notify import Failure, notify_failures

    failures = [
        Failure(session_of(row["session_id"]), row["error"]["message"], row["resumes_at"])
        for row in rows
        if row["error"] is not None
    ]
    notify_failures(failures)


def _table(rows: list[Parked]) -> str:
    if not rows:
        return ""
    cells = [(row["session_id"], row["status"], clock(row["resumes_at"]), row["name"] or "-") for row in rows]
    return columns(("ID", "STATUS", "LIMITED UNTIL", "NAME"), cells)
