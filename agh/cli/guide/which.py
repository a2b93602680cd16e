"""The answer to a command that names no session: those that it could mean. Imported only for that error."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from agh.console import terminal
from agh.console.output import columns
from agh.console.when import age
from agh.errors import AghError, Usage
from agh.store import sessions
from agh.store.views import View, list_views

MOST = 5


def session_missing(context: click.Context) -> Usage:
    """Return the error of a command that needs a session, with the recent ones of this workspace."""
    verb, path = context.info_name, context.command_path
    try:
        here = os.path.realpath(sessions.working_directory())
        views = list_views(
            lambda view: (
                "error" not in view and not view.get("archived") and sessions.in_workspace(view, here)
            )
        )
        anywhere = bool(views or sessions.session_ids())
    except (AghError, OSError):  # the home is the next command's to complain about
        return Usage(f"{verb} needs a session", hint=f"{path} ID")
    if not views:
        elsewhere = "; agh list --all shows those of other workspaces" if anywhere else ""
        return Usage(f"{verb} needs a session, and there is none here yet", hint=f"agh new{elsewhere}")
    rows = [_row(view) for view in views[:MOST]]
    text = columns(("NAME", "ID", "STATUS", "ACTIVE"), rows).rstrip("\n")
    reference = views[0].get("name") or views[0]["id"]
    return Usage(
        f"{verb} needs a session. Recent ones here:\n{text}",
        hint=f"{path} {reference}, or {path} @last for the newest",
        sessions=[view["id"] for view in views[:MOST]],
    )


def _row(view: View) -> tuple[str, str, str, str]:
    title = terminal.one_line(str(view.get("name") or view.get("title") or "-"), 40)
    return title, view["id"], view["badge"], age(view.get("updated_at"), datetime.now(UTC))
