"""What the agent of new sessions takes in a prompt, as its sessions on this machine know it."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

from agh.errors import MetaInvalid
from agh.home import Session
from agh.store import meta
from agh.store.sessions import all_sessions
from agh_acp.connection import Options

USUAL = {"image": True, "audio": False, "embeddedContext": True}  # of an agent that never ran here
NEWEST = 50  # sessions that are looked at, since a client waits for this


def prompt_capabilities(options: Options) -> dict[str, bool]:
    """Return which content new sessions take: what their agent last said, else what is usual.

    An agent is known only when it runs, and a client asks before that.
    """
    name = options.agent or (os.path.basename(options.command[0]) if options.command else None)
    for session in islice(reversed(all_sessions()), NEWEST):
        capabilities = _read(session, name)
        if capabilities is not None:
            return USUAL | {kind: capabilities.get(kind) is True for kind in ("image", "audio")}
    return USUAL


def _read(session: Session, agent_name: str | None) -> dict[str, Any] | None:
    """Return what a session's agent has said, if it is this agent; None stands for any agent."""
    try:
        metadata = meta.read(session)
    except (MetaInvalid, OSError):
        return None
    capabilities = (metadata.get("acp_caps") or {}).get("promptCapabilities")
    if agent_name not in (None, metadata["agent_name"]) or not isinstance(capabilities, dict):
        return None
    return capabilities
