"""`agh session ensure`"""

from __future__ import annotations

import os
from typing import Any

import click

from agh.cli.session.new import agent_options, new_session
from agh.console.output import output_option, write_json, write_text
from agh.errors import AghError, MetaInvalid, NameMismatch, NameTaken
from agh.keeper import client
from agh.store import meta, sessions, workspaces
from agh.store.views import session_view


@click.command(
    "ensure",
    epilog="Example (cron):  agh session ensure --name nightly --agent codex",
)
@click.option("--name", required=True, help="The session's name.")
@agent_options
@output_option()
def ensure_command(name: str, output: str, **options: Any) -> None:
    """Print the id of the session called NAME; start one if there is none.

    Any number of calls at once give one session. The other options are for a start; a session of that
    name in another workspace, or of another agent than --agent, is an error. A stopped session is not
    started: the next prompt does that.
    """
    directory, created = ensure(name, **options)
    view = session_view(directory)
    if output == "human":
        write_text(f"{view['id']}\n")
    elif output == "json":
        write_json({"session": view, "created": created})
    else:
        write_json(view, lines=True)


def ensure(name: str, **options: Any) -> tuple[str, bool]:
    """The session's directory, and whether it is new."""
    while True:
        found = named(name)
        if found is None:
            try:
                return sessions.resolve(new_session(name=name, **options)["id"]), True
            except NameTaken:  # somebody was faster
                continue
        try:
            client.await_started(found)
            _check(name, meta.read(found), options.get("agent"), options.get("workspace"))
        except MetaInvalid:
            if os.path.isdir(found):
                raise
            continue  # it failed to start, and is gone
        if not meta.read(found).get("acp_session_id"):  # it has never come up
            client.ensure_live(found)
        return found, False


def named(name: str) -> str | None:
    """The session in use that has this very name."""
    for directory, found in sessions.scan():
        if not isinstance(found, AghError) and found.get("name") == name and not found.get("archived"):
            return directory
    return None


def _check(name: str, found: meta.Meta, agent: str | None, workspace: str | None) -> None:
    """A name that means something else than was asked for must not be taken for it."""
    place = workspaces.existing(workspace).path
    if not sessions.in_workspace(found, place):
        raise NameMismatch(name, found["id"], f"is in {found['workspace_path']}", hint="choose another name")
    if agent and agent != found["agent_name"]:
        hint = f"agh session resume {name} --agent {agent}"
        raise NameMismatch(name, found["id"], f"runs {found['agent_name']}", hint=hint)
