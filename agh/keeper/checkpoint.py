"""The checkpoint of any session, derived from its log by the plugin that knows its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agh import config
from agh.adapters import registry
from agh.core.checkpoint import Checkpoint
from agh.store import checkpoint, meta


def derive(
    directory: str, elapsed: float | None = None, settings: Mapping[str, Any] | None = None
) -> Checkpoint:
    """Return the checkpoint derived from a session's log; `settings` are read unless the caller has them."""
    session = meta.read(directory)
    kind = session.get("kind")
    if kind:
        return registry.kind(kind).checkpoint(directory, elapsed)
    settings = settings or config.load(session["workspace_path"])
    depth = settings["session.transcript_replay_depth"]
    return checkpoint.of_session(directory, session, depth, elapsed)
