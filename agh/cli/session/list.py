"""`agh session list`"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, output_option, talk, write_result
from agh.console.when import age
from agh.core.events import timestamp
from agh.core.status import LIVE_STATES
from agh.store import sessions, workspaces
from agh.store.views import View, list_views

RECENT = timedelta(days=7)
_STYLES = {"running": "green", "idle": "cyan", "failed": "red", "hung": "red", "unknown": "red"}


@click.command(
    "list",
    epilog="\b\nExamples:\n  agh session list --resumable --workspace .\n"
    "  agh session list --all --badge failed -o json | jq -r '.sessions[].id'",
)
@click.option("--all", "everything", is_flag=True, help="Also old and archived sessions.")
@click.option("--resumable", is_flag=True, help="Only sessions that can be resumed or attached to.")
@click.option("--workspace", metavar="W", help="Only sessions of this workspace: a name, an id or a path.")
@click.option("--state", help="Only sessions in this state (starting, active, stopping, stopped).")
@click.option("--badge", help="Only sessions with this badge (running, idle, failed, …).")
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--limit", type=click.IntRange(min=0), help="At most this many.")
@output_option()
def list_command(output: str, limit: int | None, **wanted: Any) -> None:
    """List sessions: live ones and those of the last week, newest activity first."""
    views = select(**wanted)
    shown = views if limit is None else views[:limit]
    write_result("sessions", shown, output, lambda: table(shown))
    if output == "human" and not shown:
        _tell_nothing(wanted["everything"])


def _tell_nothing(everything: bool) -> None:
    if sys.stderr.isatty():
        from agh.cli.welcome import welcome

        if welcome():
            return
    talk("no sessions" if everything else "no recent sessions; see older ones with --all")


def select(
    everything: bool,
    resumable: bool,
    workspace: str | None,
    state: str | None,
    badge: str | None,
    agent: str | None,
) -> list[View]:
    since = timestamp(datetime.now(UTC) - RECENT)
    place = workspaces.find(workspace) if workspace else None

    def keep(view: View) -> bool:
        recent = view["state"] in LIVE_STATES or str(view.get("updated_at") or "~") >= since
        return (
            (everything or (recent and not view.get("archived")))
            and (not resumable or (view["state"] != "unknown" and not view.get("archived")))
            and (place is None or is_in(view, place, workspace))
            and (not state or view["state"] == state)
            and (not badge or view["badge"] == badge)
            and (not agent or view.get("agent_name") == agent)
        )

    found = list_views(keep)
    if workspace and not found:
        workspaces.existing(workspace)
    return found


def is_in(view: View, place: workspaces.Workspace, reference: str | None) -> bool:
    """Whether the session is of that workspace: by its path, or by an id that it was given."""
    return place.path in sessions.workspaces(view) or view.get("workspace_id") == (place.id or reference)


def table(views: list[View]) -> str:
    if not views:
        return ""
    now = datetime.now(UTC)
    room = max(12, terminal.width() - 66) if terminal.is_terminal() else 200
    header = ("ID", "BADGE", "AGENT", "ACTIVE", "NAME")
    rows = [
        (
            view["id"],
            view["badge"],
            terminal.one_line(str(view.get("agent_name") or "-"), 16),
            age(view.get("updated_at"), now),
            terminal.one_line(str(_words(view)), room),
        )
        for view in views
    ]
    text = columns(header, rows)
    if not terminal.has_colour():
        return text
    first, *lines = text.splitlines()
    coloured = [
        line.replace(view["badge"], terminal.styled(view["badge"], _STYLES.get(view["badge"], "dim")), 1)
        for line, view in zip(lines, views, strict=True)
    ]
    return "\n".join([terminal.styled(first, "bold"), *coloured])


def _words(view: View) -> str:
    if "error" in view:
        return str(view["error"]["message"])
    return view.get("name") or view.get("title") or view.get("workspace_path") or "-"
