"""What a session has used, and the limits on it: tokens and cost per turn, turns, time and bytes.

Agents report cost as a running sum; it is turned into differences, so a turn has its own figure. What an
agent does not report stays unknown, and never counts as zero. Once a limit is reached, the session pauses.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any

from agh.adapters.agents import LIMITS, AgentRecord, is_users_own
from agh.core.events import timestamp
from agh.errors import DiskFull, LimitReached
from agh.home import Session, free_bytes
from agh.keeper.session import Live
from agh.store.meta import Meta
from agh.store.reader import FILE, Reader
from agh.store.rows import upsert

CHECK_BYTES = 1 << 18  # received between two looks at the limits
BYTE_REASONS = ("max_bytes", "disk_low")


def store_usage(db: sqlite3.Connection, turn_id: str, usage: dict[str, Any]) -> None:
    """Inside a batch: merge usage into the turn's row; None leaves what is stored."""
    row = {"turn_id": turn_id, **{key: value for key, value in usage.items() if value is not None}}
    row["timestamp"] = timestamp()
    upsert(db, "token_usage", "turn_id", row)


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


def read_spent(session: Session, acp_session_id: str | None) -> dict[str, Any] | None:
    """Return a session's cost from its log: the metadata of a keeper that was killed may lag behind."""
    with Reader(session) as reader:
        ((total, currency),) = reader.fetch("SELECT sum(cost_amount), max(cost_currency) FROM token_usage")
        if total is None:
            return None
        ((agent_cost,),) = reader.fetch(
            "SELECT max(content ->> '$.usage.cost_amount') FROM events WHERE type = 'usage' "
            "AND sequence > (SELECT max(sequence) FROM events) - 10000 AND content ->> '$.session_id' = ?",
            [acp_session_id],
        )
    return {"agent_cost": agent_cost or 0.0, "cost_amount": round(total, 9), "cost_currency": currency}


def limits_of(meta: Meta, record: AgentRecord, settings: dict[str, Any]) -> dict[str, float]:
    """Return the limits in force: the session's, else the agent's or the configured ones; 0 is none.

    A definition of an agent in the user's home may set any limit; another one can only lower it.
    """
    own = meta.get("limits") or {}
    limits = {}
    for name in LIMITS:
        others = (record.limits.get(name), settings[f"session.limits.{name}"])
        candidates = [limit for limit in others if limit]
        if len(candidates) == 2 and not is_users_own(record):
            candidates = [min(candidates)]
        limits[name] = own.get(name) or (candidates[0] if candidates else 0)
    return limits


def refuse_over_limit(session: Session, meta: Meta, record: AgentRecord, settings: dict[str, Any]) -> None:
    """Raise LimitReached if a session has used up a limit, and so cannot start without a higher one.

    Raise DiskFull if the disk has less room than is to stay free.
    """
    reached = _used_up(meta, limits_of(meta, record, settings), log_bytes(session))
    if reached is not None:
        _, limit, figures = reached
        raise LimitReached(meta["id"], figures, "--" + limit.replace("_", "-"))
    free, reserve = room(session), settings["session.reserve_bytes"]
    if free < reserve:
        figures = f"only {free >> 20} MB are free; session.reserve_bytes keeps {reserve >> 20} MB free"
        raise DiskFull(session.directory, figures)


def log_bytes(session: Session) -> int:
    """Return how many bytes a session's log has on disk."""
    return sum(_size(session, name) for name in (FILE, f"{FILE}-wal"))


def room(session: Session) -> int:
    """Return how many bytes the log can still grow: to fold the WAL into it takes as much again."""
    return free_bytes(session) - _size(session, f"{FILE}-wal")


def _size(session: Session, name: str) -> int:
    try:
        return os.stat(os.path.join(session, name)).st_size
    except OSError:
        return 0


def count_bytes(live: Live, size: int) -> None:
    """Inside a batch: count what the agent sent, and now and then see whether that is too much."""
    turns = live.turns
    turns.bytes += size
    turns.unchecked_bytes += size
    if turns.current is not None:
        turns.current.bytes += size
    if turns.unchecked_bytes >= CHECK_BYTES:
        check_limits(live)


def is_over_bytes(live: Live) -> bool:
    """Tell whether the session is about to pause because of what the agent sends: no more of it is stored."""
    return live.turns.pause_after is not None and live.turns.pause_after[0] in BYTE_REASONS


def check_limits(live: Live) -> None:
    """Inside a batch: once a limit is reached, end the turn, and then pause the session."""
    from agh.keeper.turns.cancel import ask_to_cancel

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


def reached_within(live: Live, seconds: float) -> str | None:
    """Return the limit of the session that is reached now or in so many seconds, if any."""
    reached = _reached(live)
    if reached is not None:
        return reached[1]
    limit = limits_of(live.meta, live.agent.record, live.settings)["max_time"]
    elapsed = time.monotonic() - live.activity.started
    return "max_time" if limit and elapsed + seconds >= limit else None


def _check_in_batch(live: Live) -> None:
    with live.log.batch():
        check_limits(live)


def _reached(live: Live) -> tuple[str, str] | None:
    """Return the stop reason and the limit that was reached, if any."""
    limits = limits_of(live.meta, live.agent.record, live.settings)
    reached = _used_up(live.meta, limits, live.turns.bytes)
    if reached is not None:
        return reached[:2]
    live.turns.unchecked_bytes = 0
    most = live.settings["session.limits.max_turn_bytes"]
    if most and live.turns.current is not None and live.turns.current.bytes >= most:
        return "max_bytes", "max_turn_bytes"
    if room(live.session) < live.settings["session.reserve_bytes"]:
        return "disk_low", "reserve_bytes"
    elapsed = time.monotonic() - live.activity.started
    return ("timeout", "max_time") if limits["max_time"] and elapsed >= limits["max_time"] else None


def _used_up(meta: Meta, limits: dict[str, float], size: int) -> tuple[str, str, str] | None:
    """Return the stop reason, the limit and the figures if a limit on cost, turns or bytes was reached."""
    cost, turns = (meta.get("spent") or {}).get("cost_amount") or 0.0, meta.get("turns", 0)
    if limits["max_cost"] and cost >= limits["max_cost"]:
        return "budget_exceeded", "max_cost", f"it has spent {cost:g} of {limits['max_cost']:g}"
    if limits["max_turns"] and turns >= limits["max_turns"]:
        return "max_turns", "max_turns", f"it has had {turns} of {limits['max_turns']:g} turns"
    if limits["max_bytes"] and size >= limits["max_bytes"]:
        return "max_bytes", "max_bytes", f"its log has {size} of {limits['max_bytes']:.0f} bytes"
    return None
