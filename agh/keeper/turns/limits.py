"""The limits on a session's cost, turns and time: once one is reached, the session pauses."""

from __future__ import annotations

import os
import time
from typing import Any

from agh.adapters.agents import LIMITS, AgentRecord
from agh.errors import LimitReached
from agh.home import home_path
from agh.keeper.session import Live
from agh.keeper.turns.cancel import ask_to_cancel
from agh.store.meta import Meta


def limits_of(meta: Meta, record: AgentRecord, settings: dict[str, Any]) -> dict[str, float]:
    """Return the limits in force: the session's, else the agent's or the configured ones; 0 is none.

    A definition of an agent in the user's home may set any limit; another one can only lower it.
    """
    own = meta.get("limits") or {}
    is_users = os.path.dirname(record.source) == os.path.join(home_path(), "agents")
    limits = {}
    for name in LIMITS:
        others = [record.limits.get(name) or 0, settings[f"session.limits.{name}"]]
        candidates = [limit for limit in others if limit]
        configured = (candidates[0] if is_users else min(candidates)) if candidates else 0
        limits[name] = own.get(name) or configured
    return limits


def refuse_over_limit(meta: Meta, record: AgentRecord, settings: dict[str, Any]) -> None:
    """Raise LimitReached if a session has used up a limit, and so cannot start without a higher one."""
    reached = _used_up(meta, limits_of(meta, record, settings))
    if reached is not None:
        _, limit, figures = reached
        raise LimitReached(meta["id"], figures, "--" + limit.replace("_", "-"))


def check_limits(live: Live) -> None:
    """Inside a batch: once a limit is reached, end the turn, and then pause the session."""
    reached = _reached(live)
    if reached is None or live.turns.pause_after is not None:
        return
    live.turns.pause_after = reached
    if live.turns.current is None:
        live.log.then(lambda: live.end(*reached))
    else:
        live.log.then(lambda: ask_to_cancel(live))


def watch_time(live: Live) -> None:
    """Check the limit on time when it is due, even if no turn is running."""
    limit = limits_of(live.meta, live.agent.record, live.settings)["max_time"]
    if limit:
        due = live.activity.started + limit - time.monotonic()
        live.loop.later(max(0.0, due), lambda: _check_in_batch(live))


def _check_in_batch(live: Live) -> None:
    with live.log.batch():
        check_limits(live)


def _reached(live: Live) -> tuple[str, str] | None:
    """Return the stop reason and the limit that was reached, if any."""
    limits = limits_of(live.meta, live.agent.record, live.settings)
    reached = _used_up(live.meta, limits)
    if reached is not None:
        return reached[:2]
    elapsed = time.monotonic() - live.activity.started
    return ("timeout", "max_time") if limits["max_time"] and elapsed >= limits["max_time"] else None


def _used_up(meta: Meta, limits: dict[str, float]) -> tuple[str, str, str] | None:
    """Return the stop reason, the limit and the figures if a limit on cost or turns was reached."""
    cost, turns = (meta.get("spent") or {}).get("cost_amount") or 0.0, meta.get("turns", 0)
    if limits["max_cost"] and cost >= limits["max_cost"]:
        return "budget_exceeded", "max_cost", f"it has cost {cost:g} of {limits['max_cost']:g}"
    if limits["max_turns"] and turns >= limits["max_turns"]:
        return "max_turns", "max_turns", f"it has had {turns} of {limits['max_turns']:g} turns"
    return None
