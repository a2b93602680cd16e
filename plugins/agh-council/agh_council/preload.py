"""What a council needs only later, loaded before its keeper is ready. See agh.keeper.preload for why."""

from __future__ import annotations

import agh.keeper.agent.launch
import agh.keeper.preload
import agh.sessions.repair
import agh.sessions.worktree  # noqa: F401
import agh_council.checkpoint  # noqa: F401
from agh.adapters import registry


def load_plugins() -> None:
    """Load the plugins, whose hooks a council calls from its start to its end."""
    registry.manager()
