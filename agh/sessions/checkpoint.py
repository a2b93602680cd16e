"""Making a session's checkpoint again."""

from __future__ import annotations

from agh.core.checkpoint import Checkpoint
from agh.errors import SessionLive
from agh.home import Session
from agh.keeper.checkpoint import derive
from agh.store import checkpoint, meta
from agh.store import lock as locks


def rebuild(session: Session) -> Checkpoint:
    """Make the checkpoint of a session that is not live again, from its log."""
    lock = locks.take(session)
    if lock is None:
        raise SessionLive(meta.read(session)["id"])
    with lock:
        checkpoint.write(session, derive(session))
    return checkpoint.read(session)
