"""Sessions that another machine's agh keeps, with a mirror of each here.

The session lives in the home of the other machine: its keeper there runs the agent and is the only writer of
its log. The mirror has the same id. Its own keeper pulls the rows of the other log as they are, and passes
requests on; so every command works on a mirror as on any session. When the connection breaks, the turn
continues there, and the mirror catches up when the connection is back.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from agh import config
from agh.core.status import derive_workspace_id
from agh.errors import AghError, Usage
from agh.home import Session
from agh.keeper import client
from agh.keeper.spawn import next_id
from agh.sessions.elsewhere.command import prepare_command
from agh.sessions.elsewhere.pulled import KIND, mark_mirror
from agh.sessions.new import END_LIMIT, check_name
from agh.sessions.start import start
from agh.store import sessions, workspaces
from agh.store.create import create_session, first_meta, publish

RELAY = "relay"  # the command that the other agh runs as its end of the connection
_SENT = (
    *("agent", "command", "permissions", "options", "limits", "branch", "system_prompt", "allowed_tools"),
    *("allow_self_answers", "waits_for_slot"),
)


def create_mirrored(
    *, on: str | None, name: str | None, workspace: str | None, **request: Any
) -> tuple[Session, dict[str, Any]]:
    """Create a session in the home of the place's machine and a mirror of it here; return the mirror.

    `request` has options of `agh.sessions.new.create`. If it cannot be created there, nothing is left here.
    If the connection breaks in between, the mirror stays, and resuming it finds out.
    """
    if not on:
        raise Usage("--keeper there needs a host", hint="agh session new --on ssh:HOST --keeper there")
    if request.get("directories") or request.get("replace"):
        raise Usage("--keeper there cannot be combined with --add-dir or --replace")
    registered = workspaces.find_existing(workspace or os.getcwd())
    places = config.load(registered.path)["places"]
    session_id = next_id()
    command = prepare_command(on, (RELAY, session_id), places)
    far = {key: value for key in _SENT if (value := request.get(key)) is not None}
    far |= {
        "name": name,
        "workspace": command.directory or registered.path,
        "on": command.agent_place or None,
    }
    agent = request.get("agent") or os.path.basename((request.get("command") or ["agent"])[0])
    with sessions.lock_names():
        if name:
            check_name(name, [registered.path])
        with create_session(session_id) as lock:
            mark_mirror(lock.session)
            metadata = first_meta(session_id, agent, None, name, registered.path, request.get("permissions"))
            metadata["kind"], metadata["place"], metadata["cwd"] = KIND, on, far["workspace"]
            metadata["mirror"] = {"place": on, "id": session_id}
            metadata["workspace_id"] = registered.id or derive_workspace_id(registered.path)
            publish(lock, metadata)
    with lock:
        try:
            return lock.session, start(lock, new=True, create=far)
        except AghError as error:
            if not error.details.get("may_exist"):
                lock.release()
                client.await_end(lock.session, END_LIMIT)
                shutil.rmtree(lock.session)
            raise
