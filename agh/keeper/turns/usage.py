"""What a session has used: tokens and cost per turn.

Agents report cost as a running sum; it is turned into differences, so a turn has its own figure. What an
agent does not report stays unknown, and never counts as zero.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from agh.core.events import timestamp
from agh.keeper.session import Live
from agh.store.reader import Reader


def store_usage(db: sqlite3.Connection, turn_id: str, usage: dict[str, Any]) -> None:
    """Inside a batch: merge usage into the turn's row; None leaves what is stored."""
    row = {"turn_id": turn_id, **{key: value for key, value in usage.items() if value is not None}}
    row["timestamp"] = timestamp()
    updates = ", ".join(f"{name} = excluded.{name}" for name in row)
    db.execute(
        f"INSERT INTO token_usage ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) "
        f"ON CONFLICT (turn_id) DO UPDATE SET {updates}",
        list(row.values()),
    )


def take_context_usage(live: Live, usage: dict[str, Any]) -> None:
    """Inside a batch: store an agent's usage_update, with its running cost turned into the turn's own."""
    turn_id = live.turns.current_id or live.turns.last_id
    total = usage.get("cost_amount")
    usage = dict(usage)
    if total is not None:
        spent = dict(live.meta.get("spent") or {})
        previous = spent.get("agent_cost") or 0.0
        step = total - previous if total >= previous else total  # a smaller sum is a new count
        spent |= {
            "agent_cost": total,
            "cost_amount": round((spent.get("cost_amount") or 0.0) + step, 9),
            "cost_currency": usage.get("cost_currency"),
        }
        live.meta["spent"] = spent
        ((before,),) = live.log.db.execute(
            "SELECT coalesce(max(cost_amount), 0) FROM token_usage WHERE turn_id = ?", [turn_id]
        ).fetchall()
        usage["cost_amount"] = round(before + step, 9)
    if turn_id:
        store_usage(live.log.db, turn_id, usage)


def read_spent(directory: str, acp_session_id: str | None) -> dict[str, Any] | None:
    """Return a session's cost from its log: the metadata of a keeper that was killed may lag behind."""
    with Reader(directory) as reader:
        ((total, currency),) = reader.fetch("SELECT sum(cost_amount), max(cost_currency) FROM token_usage")
        if total is None:
            return None
        ((agent_cost,),) = reader.fetch(
            "SELECT max(content ->> '$.usage.cost_amount') FROM events WHERE type = 'usage' "
            "AND sequence > (SELECT max(sequence) FROM events) - 10000 AND content ->> '$.session_id' = ?",
            [acp_session_id],
        )
    return {"agent_cost": agent_cost or 0.0, "cost_amount": round(total, 9), "cost_currency": currency}
