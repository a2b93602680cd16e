"""`agh session list`"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.console.when import age
from agh.core.status import BADGES
from agh.errors import Usage
from agh.sessions.listing import SHOWN_STATES, select
from agh.store.sessions import session_ids
from agh.store.views import View

_ALARMING = ("failed", "hung", "not-responding", "unknown")
_STYLES = {"running": "green", "idle": "cyan", **dict.fromkeys(_ALARMING, "red")}


@click.command(
    "list",
    epilog="\b\nExamples:\n  agh session list --resumable --workspace .\n"
    "  agh session list --all --badge failed -o json | jq -r '.sessions[].id'",
)
@click.option("-a", "--all", "everything", is_flag=True, help="Also old and archived sessions.")
@click.option("--resumable", is_flag=True, help="Only sessions that can be resumed or attached to.")
@click.option("--why", is_flag=True, help="With --resumable: also the others, and what keeps each from it.")
@click.option("--workspace", metavar="W", help="Only sessions of this workspace: a name, an id or a path.")
@click.option(
    "--state", type=click.Choice(SHOWN_STATES), metavar="STATE", help="Only sessions in this state."
)
@click.option("--badge", type=click.Choice(BADGES), metavar="BADGE", help="Only sessions with this badge.")
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--limit", type=click.IntRange(min=0), help="At most this many.")
@output_option()
def list_command(output: str, limit: int | None, **filters: Any) -> None:
    """List sessions: live and recent ones, newest activity first.

    Recent is the last week; --all shows the older ones and the archive too. A session is resumable if nobody
    else holds it and its keeper responds or, if it is stopped, its log, workspace and agent are there.
    """
    if filters["why"] and not filters["resumable"]:
        raise Usage("--why explains --resumable", hint="agh session list --resumable --why")
    views = select(holder=terminal.default_holder(), **filters)
    page = views if limit is None else views[:limit]
    write_result("sessions", page, output, lambda: table(page))
    if output == "human" and not page:
        _tell_nothing(filters["everything"])


def _tell_nothing(everything: bool) -> None:
    if sys.stderr.isatty():
        from agh.cli.guide.welcome import welcome

        if welcome():
            return
    if not session_ids():
        remark("no sessions yet; start one with: agh run 'what does this project do?'")
    else:
        remark("no sessions" if everything else "no recent sessions; see older ones with --all")


def table(views: list[View]) -> str:
    if not views:
        return ""
    now = datetime.now(UTC)
    room = max(12, terminal.width() - 66) if terminal.is_terminal() else 200
    header = ("ID", "BADGE", "AGENT", "ACTIVE", "NAME OR TITLE")
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
    if view.get("why_not"):
        return str(view["why_not"]["message"])
    unanswered = view.get("unanswered_permissions")
    note = f"({unanswered} unanswered) " if unanswered else ""
    if orphaned := view.get("orphaned_questions"):
        note += f"({orphaned} open {'question' if orphaned == 1 else 'questions'}) "
    return note + str(view.get("name") or view.get("title") or view.get("workspace_path") or "-")
