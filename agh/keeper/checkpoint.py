"""The checkpoint of any session, derived from its log by the plugin that knows its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh import config
from agh.adapters import registry
from agh.core.checkpoint import Checkpoint
from agh.home import Session
from agh.store import checkpoint, meta


def derive(
    session: Session, elapsed: float | None = None, settings: Mapping[str, Any] | None = None
) -> Checkpoint:
    """Return the checkpoint derived from a session's log; `settings` are read unless the caller has them."""
    metadata = meta.read(session)
    kind = metadata.get("kind")
    if kind:
        return registry.kind(kind).checkpoint(session, elapsed)
    settings = settings or config.load(metadata["workspace_path"])
    depth = settings["session.transcript_replay_depth"]
    return checkpoint.of_session(session, metadata, depth, elapsed)
