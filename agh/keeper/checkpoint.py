"""The checkpoint of any session: derived from its log, by whoever knows its kind."""

from __future__ import annotations

from agh import config
from agh.adapters import registry
from agh.core.checkpoint import Checkpoint
from agh.store import checkpoint, meta


def derive(directory: str, elapsed: float | None = None) -> Checkpoint:
    """Return the checkpoint that a session's log gives."""
    stored = meta.read(directory)
    kind = stored.get("kind")
    if kind:
        return registry.kind(kind).checkpoint(directory, elapsed)
    depth = config.load(stored["workspace_path"])["session.transcript_replay_depth"]
    return checkpoint.of_session(directory, stored, depth, elapsed)
