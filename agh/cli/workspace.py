"""`agh workspace`: directories that have a name"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from agh import trust
from agh.config import is_listed, own_file, trust_state, untrusted_note, workspace_file
from agh.console import terminal
from agh.console.output import columns, output_option, remark, write_result
from agh.core.status import LIVE_STATES
from agh.errors import TrustRefused, Usage
from agh.store import sessions, workspaces
from agh.store.views import list_views
from agh.store.workspaces import Workspace


@click.group(
    "workspace", epilog="Example:  agh workspace add ~/src/shop && agh session list --workspace shop"
)
def workspace() -> None:
    """Name directories, so that --workspace NAME works anywhere."""


@workspace.command("add", epilog="Example:  agh workspace add ~/src/shop --name shop")
@click.argument("path", default=".", type=click.Path())
@click.option("--name", help="Name of the workspace (default: the directory's name).")
@output_option()
def add(path: str, name: str | None, output: str) -> None:
    """Register this directory or another one, or rename one."""
    entry, is_new = workspaces.add(path, name)
    write_result("workspace", entry._asdict(), output, lambda: _line(entry))
    if output == "human" and not is_new:
        remark("it was already registered")


@workspace.command("list", epilog="Example:  agh workspace list -o json | jq -r '.workspaces[].path'")
@output_option()
def list_workspaces(output: str) -> None:
    """List the registered workspaces and how many sessions each has."""
    rows = [describe(entry) for entry in workspaces.read_registered()]
    write_result("workspaces", rows, output, lambda: _table(rows))
    if output == "human" and not rows:
        remark("no workspace is registered; add this one with: agh workspace add")


@workspace.command("show", epilog="Example:  agh workspace show shop")
@click.argument("workspace", metavar="[W]", default=".")
@output_option()
def show(workspace: str, output: str) -> None:
    """Show one workspace: its sessions and its settings.

    W is a name, an id or a path (default: here).
    """
    row = describe(workspaces.find_existing(workspace))
    write_result("workspace", row, output, lambda: "\n".join(_lines(row)))
    if ignored := untrusted_note(row["path"]):
        remark(ignored)


@workspace.command("trust", epilog="Example:  agh workspace trust ~/src/shop")
@click.argument("workspace", metavar="[W]", default=".")
@click.option("--yes", is_flag=True, help="Trust what is shown without asking.")
@output_option()
def trust_command(workspace: str, yes: bool, output: str) -> None:
    """Show a workspace's .agh/, or what changed in it, and trust it.

    agh ignores .agh/ until you trust it. Then it uses a copy of what you saw: rules, hooks, agents and MCP
    servers. Later changes in the directory have no effect until you trust it again.

    W is a name, an id or a path (default: here).
    """
    path = workspaces.find_existing(workspace).path
    proposal = trust.propose(path)
    _refuse_agents(path)
    if proposal.files == proposal.trusted and proposal.files:
        remark("nothing has changed since you trusted it")
    for line in proposal.show():
        remark(terminal.clean(line))
    if not yes and not _confirm(path):
        raise Usage("nothing was trusted", hint=f"agh workspace trust {path} --yes")
    record = trust.store(proposal)
    write_result("workspace", _trust_of(path), output, lambda: terminal.clean(f"trusted  {record.path}"))


@workspace.command("untrust", epilog="Example:  agh workspace untrust ~/src/shop")
@click.argument("workspace", metavar="[W]", default=".")
@output_option()
def untrust_command(workspace: str, output: str) -> None:
    """Ignore a workspace's .agh/ from now on.

    W is a name, an id or a path (default: here).
    """
    path = workspaces.find(workspace).path
    record = trust.forget(path)
    write_result("workspace", _trust_of(path), output, lambda: terminal.clean(f"{trust_state(path)}  {path}"))
    if is_listed(path):
        remark(f"it is still trusted: {own_file()} lists it in trusted_workspaces")
    elif record is None and output == "human":
        remark("it was not trusted")


def _refuse_agents(path: str) -> None:
    """Refuse to trust anything for a process that an agent has started."""
    from agh.keeper.leash.ahead import COOKIE_VARIABLE
    from agh.keeper.leash.ancestry import environment_has, lineage

    if any(environment_has(pid, COOKIE_VARIABLE) for pid in lineage(os.getpid())):
        hint = f"run it yourself, outside the agent: agh workspace trust {path}"
        raise TrustRefused(path, "an agent cannot trust a workspace", hint=hint)


def _confirm(path: str) -> bool:
    """Ask at a terminal; nothing is asked in a pipe."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"trust {terminal.clean(path)}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _trust_of(path: str) -> dict[str, Any]:
    record = trust.record_of(path)
    digest = {"sha256": record.sha256, "trusted_at": record.trusted_at} if record else {}
    return {"path": path, "trust": trust_state(path), **digest}


@workspace.command("remove", epilog="Example:  agh workspace remove shop")
@click.argument("workspace", metavar="W")
@output_option()
def remove(workspace: str, output: str) -> None:
    """Unregister a workspace. Its directory and sessions stay."""
    gone = workspaces.remove(workspace)
    write_result("workspace", gone._asdict(), output, lambda: _line(gone))


def describe(entry: Workspace) -> dict[str, Any]:
    views = list_views(
        lambda view: entry.path in sessions.workspaces(view) or view.get("workspace_id") == (entry.id or "")
    )
    settings = workspace_file(entry.path)
    return {
        **{key: getattr(entry, key) for key in ("id", "name", "path")},
        "exists": os.path.isdir(entry.path),
        "settings": settings if os.path.isfile(settings) else None,
        "trust": trust_state(entry.path),
        "sessions": len(views),
        "live": sum(view["state"] in LIVE_STATES for view in views),
        "last_session": views[0]["id"] if views else None,
    }


def _line(entry: Workspace) -> str:
    return terminal.clean(f"{entry.name}  {entry.id}  {entry.path}")


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            terminal.one_line(row["name"], 40),
            row["id"],
            f"{row['sessions']}" + (f" ({row['live']} live)" if row["live"] else ""),
            terminal.one_line(row["path"], 200) + ("" if row["exists"] else "  (gone)"),
        )
        for row in rows
    ]
    return columns(("NAME", "ID", "SESSIONS", "PATH"), cells) if rows else ""


def _lines(row: dict[str, Any]) -> list[str]:
    filled = {key: value for key, value in row.items() if value is not None}
    return [f"{key.replace('_', ' ') + ':':<14}{terminal.clean(str(value))}" for key, value in filled.items()]
