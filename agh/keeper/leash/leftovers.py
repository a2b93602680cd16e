"""What a session's last launch left running, here or in its place, as its metadata names that launch."""

from __future__ import annotations

from contextlib import suppress

from agh.errors import AghError
from agh.keeper.leash import orphans
from agh.store.meta import Meta


def end_leftovers(stored: Meta) -> list[orphans.Orphan]:
    """End what is left of a launch whose leash could not see to it, here and in its place."""
    launch = _launch(stored)
    if launch is None:
        return []
    if stored.get("place"):
        _clear_place(stored)
    return orphans.end(launch)


def find_leftovers(stored: Meta) -> list[orphans.Orphan]:
    """Find what is left of the session's last launch; of a live session that is the agent itself."""
    launch = _launch(stored)
    return orphans.find(launch) if launch else []


def _clear_place(stored: Meta) -> None:
    """End a job or a container that outlived its wire. A place that is gone is left for the next time."""
    from agh import config
    from agh.keeper.agent.launch import agent_record, prepare

    workspace = stored["workspace_path"]
    with suppress(AghError):
        record = agent_record(stored["agent_name"], stored.get("command"), workspace)
        settings = config.load(workspace)
        prepare(record, workspace, settings, place=stored["place"], session_id=stored["id"]).clear()


def _launch(stored: Meta) -> orphans.Launch | None:
    launch = stored.get("launch")
    return orphans.Launch(launch["cookie"], launch["boot_id"], launch["ticks"]) if launch else None
