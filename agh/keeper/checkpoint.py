"""The checkpoint of any session, derived from its log by the plugin that knows its kind."""

from __future__ import annotations

from agh import config
from agh.adapters import registry
from agh.core.checkpoint import Checkpoint
from agh.store import checkpoint, meta


def derive(directory: str, elapsed: float | None = None) -> Checkpoint:
    """Return the checkpoint derived from a session's log."""
    session = meta.read(directory)
    kind = session.get("kind")
    if kind:
        return registry.kind(kind).checkpoint(directory, elapsed)
    depth = config.load(session["workspace_path"])["session.transcript_replay_depth"]
    return checkpoint.of_session(directory, session, depth, elapsed)
