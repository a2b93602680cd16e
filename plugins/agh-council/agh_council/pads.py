"""Scratch pads: one file per member, in the workspace, that its agent reads and writes by itself.

The log keeps what stood in them at the end of each round and at a pause. A pad that is missing on resume is
written again from there; one that is there stays as it is: it is newer, or somebody meant it.
"""

from __future__ import annotations

import os

from agh.core.rules import exactly
from agh.home import make_private_dir
from agh.store.replace import replace_private_file
from agh_council.state import State

MOST = 64 << 10


def path(state: State, agent_id: str) -> str | None:
    """Where a member's pad is; None when the profile has none."""
    if not state.profile.expertise:
        return None
    folder = os.path.join(os.path.realpath(state.workspace), ".agh", "council", state.session_id)
    return os.path.join(folder, agent_id.replace("/", ".") + ".md")


def ensure(state: State, agent_id: str) -> str | None:
    """The path of a member's pad, which is there afterwards."""
    pad = path(state, agent_id)
    if pad is not None and not os.path.lexists(pad):
        make_private_dir(os.path.dirname(pad))
        replace_private_file(pad, state.pads.get(agent_id, "").encode())
    return pad


def rules(pad: str | None) -> list[dict[str, str]]:
    """A member may read and write its own pad without asking."""
    return (
        [{"decision": "allow", "kind": kind, "path": exactly(pad)} for kind in ("read", "edit")]
        if pad
        else []
    )


def changed(state: State) -> dict[str, str]:
    """The pads whose text the log does not have yet."""
    found = {}
    for agent_id in state.members:
        pad = path(state, agent_id)
        text = _read(pad) if pad else None
        if text is not None and text != state.pads.get(agent_id, ""):
            found[agent_id] = text
    return found


def _read(pad: str) -> str | None:
    try:
        with open(pad, "rb") as file:
            return file.read(MOST).decode(errors="replace")
    except OSError:
        return None
