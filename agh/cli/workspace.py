"""`agh workspace`: directories that have a name"""

from __future__ import annotations

import os
from typing import Any

import click

from agh.config import untrusted_note, workspace_file
from agh.console import terminal
from agh.console.output import columns, output_option, talk, write_result
from agh.core.status import LIVE_STATES
from agh.store import sessions, workspaces
from agh.store.views import list_views
from agh.store.workspaces import Workspace


@click.group(
    "workspace", epilog="Example:  agh workspace add ~/src/shop && agh session list --workspace shop"
)
def workspace() -> None:
    """Give directories a name, so that --workspace NAME means them from anywhere."""


@workspace.command("add", epilog="Example:  agh workspace add ~/src/shop --name shop")
@click.argument("path", default=".", type=click.Path())
@click.option("--name", help="What to call it (default: the directory's own name).")
@output_option()
def add(path: str, name: str | None, output: str) -> None:
    """Register a directory (default: this one), or give a registered one another name."""
    made, is_new = workspaces.add(path, name)
    write_result("workspace", made._asdict(), output, lambda: _line(made))
    if output == "human" and not is_new:
        talk("it was registered already")


@workspace.command("list", epilog="Example:  agh workspace list -o json | jq -r '.workspaces[].path'")
@output_option()
def list_workspaces(output: str) -> None:
    """List the registered workspaces and how many sessions each has."""
    found = [describe(one) for one in workspaces.registered()]
    write_result("workspaces", found, output, lambda: _table(found))
    if output == "human" and not found:
        talk("no workspace is registered; add this one with: agh workspace add")


@workspace.command("show", epilog="Example:  agh workspace show shop")
@click.argument("workspace", metavar="W", default=".")
@output_option()
def show(workspace: str, output: str) -> None:
    """Show one workspace (a name, an id or a path): its sessions, its settings, whether it is there."""
    one = describe(workspaces.existing(workspace))
    write_result("workspace", one, output, lambda: "\n".join(_lines(one)))
    if ignored := untrusted_note(one["path"]):
        talk(ignored)


@workspace.command("remove", epilog="Example:  agh workspace remove shop")
@click.argument("workspace", metavar="W")
@output_option()
def remove(workspace: str, output: str) -> None:
    """Take a workspace off the list. Its directory and its sessions stay as they are."""
    gone = workspaces.remove(workspace)
    write_result("workspace", gone._asdict(), output, lambda: _line(gone))


def describe(one: Workspace) -> dict[str, Any]:
    views = list_views(
        lambda view: one.path in sessions.workspaces(view) or view.get("workspace_id") == (one.id or "")
    )
    settings = workspace_file(one.path)
    return {
        **{key: getattr(one, key) for key in ("id", "name", "path")},
        "exists": os.path.isdir(one.path),
        "settings": settings if os.path.isfile(settings) else None,
        "sessions": len(views),
        "live": sum(view["state"] in LIVE_STATES for view in views),
        "last_session": views[0]["id"] if views else None,
    }


def _line(one: Workspace) -> str:
    return terminal.clean(f"{one.name}  {one.id}  {one.path}")


def _table(found: list[dict[str, Any]]) -> str:
    rows = [
        (
            terminal.one_line(one["name"], 40),
            one["id"],
            f"{one['sessions']}" + (f" ({one['live']} live)" if one["live"] else ""),
            terminal.one_line(one["path"], 200) + ("" if one["exists"] else "  (gone)"),
        )
        for one in found
    ]
    return columns(("NAME", "ID", "SESSIONS", "PATH"), rows) if rows else ""


def _lines(one: dict[str, Any]) -> list[str]:
    shown = {key: value for key, value in one.items() if value is not None}
    return [f"{key.replace('_', ' ') + ':':<14}{terminal.clean(str(value))}" for key, value in shown.items()]
