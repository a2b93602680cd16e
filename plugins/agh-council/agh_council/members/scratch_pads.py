"""Scratch pads: one file per member, in the workspace, that its agent reads and writes by itself.

The log keeps their text as of the end of each round and of a pause. A pad that is missing on resume is
restored from there; an existing one is left alone, because it is newer or was edited on purpose.
"""

from __future__ import annotations

import os

from agh.core.rules import exactly
from agh.home import make_private_dir, replace_private_file
from agh_council.state import State

MAX_BYTES = 64 << 10
FOLDER = ".agh-council"  # not in `.agh`, which members cannot write to: agh obeys what is there


def path_of(state: State, agent_id: str) -> str | None:
    """Return the path of a member's pad; None if the profile does not enable pads."""
    if not state.profile.expertise:
        return None
    folder = os.path.join(os.path.realpath(state.workspace), FOLDER, state.session_id)
    return os.path.join(folder, agent_id.replace("/", ".") + ".md")


def ensure(state: State, agent_id: str) -> str | None:
    """Create a member's pad if it is missing, with the text from the log, and return its path."""
    path = path_of(state, agent_id)
    if path is not None and not os.path.lexists(path):
        make_private_dir(os.path.dirname(path))
        replace_private_file(path, state.scratch_pads.get(agent_id, "").encode())
    return path


def permission_rules(path: str | None) -> list[dict[str, str]]:
    """Return the rules that let a member read and write its own pad without asking."""
    if not path:
        return []
    return [{"decision": "allow", "kind": kind, "path": exactly(path)} for kind in ("read", "edit")]


def read_changed(state: State) -> dict[str, str]:
    """Return the text, by member, of the pads that differ from the log."""
    texts = {}
    for agent_id in state.members:
        path = path_of(state, agent_id)
        text = _read(path) if path else None
        if text is not None and text != state.scratch_pads.get(agent_id, ""):
            texts[agent_id] = text
    return texts


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return None
