"""Answers to permission requests that come from outside: by a command, a terminal or the page.

Promises: an answer names its request, counts only for what was shown, only in time, and only if the agent
offers it. An answer from the agent's own processes is refused and recorded, unless the session allows it.
"""

from __future__ import annotations

import os
import time
from typing import Any

from agh.core.acp.permission import offered
from agh.errors import (
    PermissionChanged,
    PermissionNotOffered,
    PermissionSelfAnswered,
    PermissionUnknown,
    Usage,
)
from agh.keeper.agent.permissions import decide, expire, select
from agh.keeper.leash import ancestry
from agh.keeper.server import Answer
from agh.keeper.session import Live

VERDICTS = ("allow", "allow_always", "deny", "deny_always")


def decide_verb(live: Live, request: dict[str, Any], answer: Answer) -> None:
    """Decide the pending request that is named."""
    request_id, verdict = request.get("request_id"), str(request["verdict"])
    if not isinstance(request_id, str) or not request_id:
        raise Usage("an answer names its request", hint=f"agh session permissions {live.session_id}")
    if verdict not in VERDICTS:
        raise ValueError(f"{verdict!r} is no verdict")
    refuse_own_process(live, request, f"answer {request_id}")
    pending = live.agent.requests.get(request_id)
    if pending is not None and time.monotonic() >= pending.deadline:
        expire(live, request_id)
        pending = None
    if pending is None:
        raise PermissionUnknown(request_id)
    if request.get("digest") not in (None, pending.digest):
        raise PermissionChanged(request_id, live.session_id)
    if verdict != "deny" and select(verdict, pending.options) is None:
        offers = ", ".join(offered(pending.options)) or "nothing that agh knows"
        raise PermissionNotOffered(request_id, repr(verdict.replace("_", " ")), offers.replace("_", " "))
    answer(decide(live, request_id, verdict, str(request.get("by") or "user")))


def refuse_own_process(live: Live, request: dict[str, Any], act: str) -> None:
    """Refuse a request that comes from the agent's own processes, and record it."""
    pid = request.get("peer_pid")
    if live.meta.get("allow_self_answers") or not is_own_process(live, pid):
        return
    text = f"a process of the agent tried to {act}, and was refused (pid {pid})"
    with live.log.batch():
        live.log.record("runtime_warning", turn_id=live.turns.current_id, text=text)
    raise PermissionSelfAnswered(live.session_id)


def is_own_process(live: Live, pid: Any) -> bool:
    """Tell whether a process was started by the agent or in one of its terminals; hooks are the user's."""
    if not isinstance(pid, int) or not os.path.isdir("/proc/self"):
        return False  # the system does not say
    agent, agents, hooks = live.agent, set(), {hook.leash_pid for hook in live.hooks}
    if agent.connection is not None:
        agents.add(agent.connection.process.leash_pid)
    agents |= {terminal.process.leash_pid for terminal in agent.terminals.values()}
    lineage = ancestry.lineage(pid)
    for ancestor in lineage:
        if ancestor in hooks or ancestor in agents:
            return ancestor in agents
    return not lineage or ancestry.carries(pid, str((live.meta.get("launch") or {}).get("cookie")))
