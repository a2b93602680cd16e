"""The checkpoint of any session: derived from its log, by whoever knows its kind."""

from __future__ import annotations

from agh import config
from agh.adapters import registry
from agh.core.checkpoint import Checkpoint
from agh.errors import SessionLive
from agh.store import checkpoint, lock, meta


def derive(directory: str, elapsed: float | None = None) -> Checkpoint:
    stored = meta.read(directory)
    kind = stored.get("kind")
    if kind:
        return registry.kind(kind).checkpoint(directory, elapsed)
    depth = config.load(stored["workspace_path"])["session.transcript_replay_depth"]
    return checkpoint.of_session(directory, stored, depth, elapsed)


def rebuild(directory: str) -> Checkpoint:
    """Make the checkpoint of a session that is not live again, from its log."""
    held = lock.take(directory)
    if held is None:
        raise SessionLive(meta.read(directory)["id"])
    with held:
        checkpoint.write(directory, derive(directory))
    return checkpoint.read(directory)
