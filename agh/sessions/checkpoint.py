"""Making a session's checkpoint again."""

from __future__ import annotations

from agh.core.checkpoint import Checkpoint
from agh.errors import SessionLive
from agh.keeper.checkpoint import derive
from agh.store import checkpoint, lock, meta


def rebuild(directory: str) -> Checkpoint:
    """Make the checkpoint of a session that is not live again, from its log."""
    held = lock.take(directory)
    if held is None:
        raise SessionLive(meta.read(directory)["id"])
    with held:
        checkpoint.write(directory, derive(directory))
    return checkpoint.read(directory)
