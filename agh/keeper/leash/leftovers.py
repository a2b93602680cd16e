"""What a session's last launch left running, here or in its place; its metadata identifies the launch."""

from __future__ import annotations

from contextlib import suppress

from agh.errors import AghError
from agh.home import session_of
from agh.keeper.leash import orphans
from agh.store.meta import Meta


def end_leftovers(session: Meta) -> list[orphans.Orphan]:
    """End what is left of a launch whose leash could not end it, here and in its place."""
    launch = _launch(session)
    if launch is None:
        return []
    if session.get("place"):
        _clear_place(session)
    return orphans.end(launch)


def find_leftovers(session: Meta) -> list[orphans.Orphan]:
    """Return what is left of the session's last launch; for a live session that is the agent itself."""
    launch = _launch(session)
    return orphans.find(launch) if launch else []


def _clear_place(session: Meta) -> None:
    """End a job or container that outlived its connection. If its place is gone, the next call will try."""
    from agh import config
    from agh.keeper.agent.launch import agent_record, prepare

    workspace = session["workspace_path"]
    with suppress(AghError):
        record = agent_record(session["agent_name"], session.get("command"), workspace)
        settings = config.load(workspace)
        prepare(record, workspace, settings, place=session["place"], session_id=session["id"]).clear()


def _launch(session: Meta) -> orphans.Launch | None:
    """Return the session's last launch, unless this is a copy of the session that had it."""
    launch = session.get("launch")
    if not launch or launch.get("home") != orphans.identity(session_of(session["id"])):
        return None
    return orphans.Launch(launch["cookie"], launch["boot_id"], launch["ticks"], launch["home"])
