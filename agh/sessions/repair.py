"""Bringing a session whose keeper died back into order. Promises: only appends, all or nothing, and
twice is once; never touches a live session.

`agh session repair` calls it from outside; a keeper calls it on start, with the lock it already holds.
"""

from __future__ import annotations

from typing import Any

from agh.core import status
from agh.core.events import Draft, Row, marker, timestamp
from agh.core.repair import Permission, Plan, action, issue, plan
from agh.errors import SessionBusy, SessionLive
from agh.keeper.leash.leftovers import end_leftovers
from agh.store import lock, meta
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.reader import Query, Reader
from agh.store.schema import LANDMARK
from agh.store.writer import Writer

Report = dict[str, Any]
_NEEDS_A_LOOK = ("agent_crashed", "error")


def repair(directory: str, *, dry_run: bool = False, force: bool = False) -> Report:
    """Repair a session that is not live and say what was, or would be, done."""
    stored = meta.read(directory)
    if lock.is_held(directory):
        raise SessionLive(stored["id"])
    if _ended_well(stored) and not force:
        return _report(stored["id"], Plan(), persisted=False)
    if dry_run:
        return _report(stored["id"], _plan(directory, stored), persisted=False)
    held = lock.take(directory)
    if held is None:
        raise SessionBusy(stored["id"])
    with held:
        return recover(held)


def recover(held: Lock) -> Report:
    """Repair the session whose lock is held: its processes, its log, then the metadata that speaks of it."""
    stored = meta.read(held.directory)
    end_leftovers(stored)
    found = _plan(held.directory, stored)
    if found.drafts:
        # The actions that append come first, each with one event, in the same order.
        for done, row in zip(found.actions, _append(held, stored, found.drafts), strict=False):
            done["event_id"] = row.id
    if found.actions:
        _settle(held.directory, stored, sum(one["code"] == "append_error" for one in found.actions))
    for done in found.actions:
        done["persisted"] = True
    return _report(stored["id"], found, persisted=bool(found.actions))


def end_left_over(directory: str) -> None:
    """The same for a session that is not live; one that comes alive meanwhile is left alone."""
    held = lock.take(directory)
    if held is not None:
        with held:
            end_leftovers(meta.read(directory))


def _ended_well(stored: Meta) -> bool:
    return stored["state"] == "stopped" and stored.get("stop_reason") not in _NEEDS_A_LOOK


def _plan(directory: str, stored: Meta) -> Plan:
    with Reader(directory) as reader:
        found = reader.snapshot(lambda: _plan_log(reader))
    if stored["state"] in status.LIVE_STATES:
        detail = f"metadata says {stored['state']}, but {status.KEEPER_VANISHED}"
        found.issues.append(issue("stale_metadata", "error", detail))
        found.actions.append(action("fix_metadata"))
    return found


def _plan_log(reader: Reader) -> Plan:
    pending = reader.fetch(
        "SELECT request_id, turn_id, tool_call_id, action, resource FROM permissions "
        "WHERE status = 'pending' ORDER BY created_at, request_id"
    )
    found = plan(_open_turn_rows(reader), timestamp(), map(Permission._make, pending))
    for (turn_id,) in reader.fetch("SELECT turn_id FROM inputs WHERE status = 'dispatching' ORDER BY id"):
        summary = "the prompt was sent when its keeper died; it is not sent again by itself"
        found.issues.append(issue("interrupted_input", "warning", summary, turn_id))
        found.actions.append(action("interrupt_input", turn_id))
        found.drafts.append(marker("prompt_interrupted", summary, severity="warning"))
    return found


def _open_turn_rows(reader: Reader) -> list[Row]:
    """The rows of every turn that has no end, found without scanning the log."""
    bounds = reader.fetch(
        "SELECT turn_id, min(sequence), max(type IN ('done', 'error')) FROM events "
        f"WHERE {LANDMARK} AND turn_id != '' GROUP BY turn_id"
    )
    rows: list[Row] = []
    for turn_id, first, ended in bounds:
        if not ended:
            rows += reader.rows(Query(turn=turn_id), after=first - 1)
    return sorted(rows)


def _append(held: Lock, stored: Meta, drafts: list[Draft]) -> list[Row]:
    with Writer(held, stored["agent_name"]) as writer, writer.transaction() as connection:
        rows = writer.append(drafts)
        now = timestamp()
        connection.execute(
            "UPDATE permissions SET status = 'expired', decision = 'expired', decided_at = ? "
            "WHERE status = 'pending'",
            [now],
        )
        connection.execute(
            "UPDATE inputs SET status = 'interrupted', updated_at = ? WHERE status = 'dispatching'", [now]
        )
    return rows


def _settle(directory: str, stored: Meta, closed_turns: int) -> None:
    with Reader(directory) as reader:
        last = reader.last_sequence()
    settled: Any = status.settled(stored, lock_held=False)
    settled |= {"launch": None, "last_sequence": last, "updated_at": timestamp()}
    settled["turns"] = (stored.get("turns") or 0) + closed_turns
    meta.write(directory, settled)


def _report(session_id: str, found: Plan, *, persisted: bool) -> Report:
    return {
        "session_id": session_id,
        "issues": found.issues,
        "actions": found.actions,
        "persisted": persisted,
    }
