"""`agh session prune`"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from agh.console.output import output_option, remark, write_result
from agh.console.progress import progress
from agh.console.when import parse_duration
from agh.core.events import timestamp
from agh.core.status import LIVE_STATES
from agh.errors import SessionLive, Usage
from agh.sessions.delete import delete
from agh.store import sessions
from agh.store.views import View, list_views


@click.command("prune", epilog="Example (cron):  agh session prune --older-than 30d --keep 100")
@click.option("--older-than", metavar="TIME", help="Only sessions without activity for this long, e.g. 30d.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Always keep the newest N.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@output_option()
def prune_command(older_than: str | None, keep: int | None, dry_run: bool, output: str) -> None:
    """Delete old sessions, but never live or unreadable ones."""
    if older_than is None and keep is None:
        raise Usage(
            "say which sessions: --older-than TIME, --keep N, or both",
            hint="agh session prune --older-than 30d --dry-run",
        )
    views = choose(parse_duration(older_than, "--older-than") if older_than else 0.0, keep or 0)
    removed = []
    for view in progress(views, "removing", len(views)):
        row = {"id": view["id"], "updated_at": view.get("updated_at"), "removed": not dry_run}
        if not dry_run:
            try:
                row["not_removed"] = delete(sessions.resolve(view["id"]), agent_session=False)
            except SessionLive:
                continue  # it was resumed in the meantime
            for leftover in row["not_removed"]:
                remark(f"not deleted: {leftover}")
        removed.append(row)
    write_result(
        "pruned", removed, output, lambda: "\n".join(f"{row['id']}  {row['updated_at']}" for row in removed)
    )
    if output == "human":
        remark(f"{len(removed)} {'would be ' if dry_run else ''}deleted")


def choose(age: float, keep: int) -> list[View]:
    """Return finished sessions older than `age` seconds, except the newest `keep` of all."""
    before = timestamp(datetime.now(UTC) - timedelta(seconds=age))
    finished = list_views(lambda view: view["state"] not in (*LIVE_STATES, "unknown"))
    return [view for view in finished[keep:] if str(view.get("updated_at")) <= before]
