"""Making a session's checkpoint again."""

from __future__ import annotations

from agh.core.checkpoint import Checkpoint
from agh.errors import SessionLive
from agh.keeper.checkpoint import derive
from agh.store import checkpoint, meta
from agh.store import lock as locks


def rebuild(directory: str) -> Checkpoint:
    """Make the checkpoint of a session that is not live again, from its log."""
    lock = locks.take(directory)
    if lock is None:
        raise SessionLive(meta.read(directory)["id"])
    with lock:
        checkpoint.write(directory, derive(directory))
    return checkpoint.read(directory)
