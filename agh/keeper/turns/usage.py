"""What a session uses and may use: tokens and cost per turn, and the limits that pause it.

Agents report cost as a running sum; it is turned into differences, so a turn has its own figure. What
an agent does not report stays unknown and is never taken for nothing.
"""

from __future__ import annotations

import time
from typing import Any

from agh.adapters.agents import LIMITS, AgentRecord
from agh.core.events import timestamp
from agh.errors import LimitReached
from agh.keeper.session import Live
from agh.store.meta import Meta
from agh.store.reader import Reader


def store_usage(live: Live, turn_id: str, usage: dict[str, Any]) -> None:
    """Inside a batch: merge into the turn's row; what is None leaves what is known."""
    row = {"turn_id": turn_id, **{key: value for key, value in usage.items() if value is not None}}
    row["timestamp"] = timestamp()
    updates = ", ".join(f"{name} = excluded.{name}" for name in row)
    live.db.execute(
        f"INSERT INTO token_usage ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) "
        f"ON CONFLICT (turn_id) DO UPDATE SET {updates}",
        list(row.values()),
    )


def take_context_usage(live: Live, usage: dict[str, Any]) -> None:
    """Inside a batch: an agent's usage_update. The session's running cost becomes the turn's own."""
    turn_id = live.turn.turn_id if live.turn else live.last_turn_id
    total = usage.get("cost_amount")
    usage = dict(usage)
    if total is not None:
        spent = dict(live.meta.get("spent") or {})
        known = spent.get("agent_cost") or 0.0
        step = total - known if total >= known else total  # a smaller sum is a new count
        spent |= {
            "agent_cost": total,
            "cost_amount": round((spent.get("cost_amount") or 0.0) + step, 9),
            "cost_currency": usage.get("cost_currency"),
        }
        live.meta["spent"] = spent
        ((before,),) = live.db.execute(
            "SELECT coalesce(max(cost_amount), 0) FROM token_usage WHERE turn_id = ?", [turn_id]
        ).fetchall()
        usage["cost_amount"] = round(before + step, 9)
    if turn_id:
        store_usage(live, turn_id, usage)


def spent(directory: str, agent_session: str | None) -> dict[str, Any] | None:
    """What a session has cost, from its log: the metadata of a keeper that was killed may lag behind."""
    with Reader(directory) as reader:
        ((total, currency),) = reader.fetch("SELECT sum(cost_amount), max(cost_currency) FROM token_usage")
        if total is None:
            return None
        ((known,),) = reader.fetch(
            "SELECT max(content ->> '$.usage.cost_amount') FROM events WHERE type = 'usage' "
            "AND sequence > (SELECT max(sequence) FROM events) - 10000 AND content ->> '$.session_id' = ?",
            [agent_session],
        )
    return {"agent_cost": known or 0.0, "cost_amount": round(total, 9), "cost_currency": currency}


def limits_of(stored: Meta, record: AgentRecord, settings: dict[str, Any]) -> dict[str, float]:
    """The limits in force: the session's own, else the agent's, else the configured ones; 0 is none."""
    own = stored.get("limits") or {}
    return {
        name: own.get(name) or record.limits.get(name) or settings[f"session.limits.{name}"]
        for name in LIMITS
    }


def used_up(stored: Meta, limits: dict[str, float]) -> tuple[str, str, str] | None:
    """The stop reason, the limit and the figures, of a limit on cost or turns that was reached."""
    cost, turns = (stored.get("spent") or {}).get("cost_amount") or 0.0, stored.get("turns", 0)
    if limits["max_cost"] and cost >= limits["max_cost"]:
        return "budget_exceeded", "max_cost", f"it has cost {cost:g} of {limits['max_cost']:g}"
    if limits["max_turns"] and turns >= limits["max_turns"]:
        return "max_turns", "max_turns", f"it has had {turns} of {limits['max_turns']:g} turns"
    return None


def reached(live: Live) -> tuple[str, str] | None:
    """The stop reason and the limit that was reached, if one was."""
    limits = limits_of(live.meta, live.record_of_agent, live.settings)
    found = used_up(live.meta, limits)
    if found is not None:
        return found[:2]
    lived = time.monotonic() - live.began
    return ("timeout", "max_time") if limits["max_time"] and lived >= limits["max_time"] else None


def refuse_spent(stored: Meta, record: AgentRecord, settings: dict[str, Any]) -> None:
    """A session that has used up a limit does not go on without a higher one."""
    found = used_up(stored, limits_of(stored, record, settings))
    if found is not None:
        _, limit, figures = found
        raise LimitReached(stored["id"], figures, "--" + limit.replace("_", "-"))
