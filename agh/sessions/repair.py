"""Repairing a session whose keeper died.

Promises: repair only appends, all or nothing; repeating it changes nothing; it never touches a live session.
`agh session repair` calls it, and so does every start of a session, with the lock it already holds.
"""

from __future__ import annotations

from typing import Any

from agh.core import status
from agh.core.events import Draft, Row, draft, marker, timestamp
from agh.core.repair import OpenQuestion, Permission, Plan, action, issue, plan
from agh.errors import EventsLost, SessionBusy, SessionLive
from agh.home import Session
from agh.keeper.leash.leftovers import end_leftovers
from agh.store import lock as locks
from agh.store import meta
from agh.store.create import delete_temporary
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.reader import Query, Reader
from agh.store.schema import HAS_QUESTIONS, LANDMARK
from agh.store.writer import Writer

Report = dict[str, Any]
MOST_LOST = 100_000  # more than a disk loses; the metadata is more likely to be wrong
_NEEDS_A_LOOK = ("agent_crashed", "error")


def repair(session: Session, *, dry_run: bool = False, force: bool = False) -> Report:
    """Repair a session that is not live and return what was, or would be, done."""
    metadata = meta.read(session)
    if locks.is_held(session):
        raise SessionLive(metadata["id"])
    if ended_well(metadata) and not force and not count_lost(session, metadata):
        return _report(metadata["id"], Plan(), persisted=False)
    if dry_run:
        return _report(metadata["id"], _plan(session, metadata), persisted=False)
    lock = locks.take(session)
    if lock is None:
        raise SessionBusy(metadata["id"])
    with lock:
        return repair_locked(lock)


def repair_locked(lock: Lock) -> Report:
    """Repair the session whose lock is held: its processes, its log, then the metadata that speaks of it."""
    metadata = meta.read(lock.session)
    delete_temporary(lock.session, owned=True)
    end_leftovers(metadata)
    lost = count_lost(lock.session, metadata)
    if lost:
        fill_lost(lock, metadata["agent_name"], lost)
    repairs = _plan(lock.session, metadata)
    if repairs.drafts:
        # The actions that append come first, each with one event, in the same order.
        for act, row in zip(repairs.actions, _append(lock, metadata, repairs.drafts), strict=False):
            act["event_id"] = row.id
    if lost:
        repairs.actions.append(action("mark_lost_events"))
    if repairs.actions:
        codes = [act["code"] for act in repairs.actions]
        _write_metadata(lock.session, metadata, codes.count("append_error"), codes.count("orphan_question"))
    for act in repairs.actions:
        act["persisted"] = True
    return _report(metadata["id"], repairs, persisted=bool(repairs.actions))


def count_lost(session: Session, metadata: Meta) -> int:
    """Return how many events the metadata knows of that are not in the log."""
    with Reader(session) as reader:
        return max(0, (metadata.get("last_sequence") or 0) - reader.last_sequence())


def fill_lost(lock: Lock, agent_name: str, lost: int) -> None:
    """Append an event for each that is lost, so that no sequence is ever used for another, and a marker."""
    with Writer(lock, agent_name) as writer:
        last = writer.last_sequence
        if lost > MOST_LOST:
            raise EventsLost(writer.session_id, last, last + lost)
        summary = f"{lost} events were lost: the log ended at {last}, its metadata knew of {last + lost}"
        writer.append([*[draft("event_lost")] * lost, marker("events_lost", summary, severity="warning")])


def end_leftovers_of(session: Session) -> None:
    """End what the last launch of a stopped session left running; do nothing if it is live again."""
    lock = locks.take(session)
    if lock is not None:
        with lock:
            end_leftovers(meta.read(session))


def ended_well(metadata: Meta) -> bool:
    """Tell whether a session stopped cleanly, so that there is nothing to repair."""
    return metadata["state"] == "stopped" and metadata.get("stop_reason") not in _NEEDS_A_LOOK


def _plan(session: Session, metadata: Meta) -> Plan:
    with Reader(session) as reader:
        repairs = reader.snapshot(lambda: _plan_log(reader))
    if lost := count_lost(session, metadata):
        repairs.issues.append(issue("lost_events", "error", f"the log lacks {lost} events at its end"))
    if metadata["state"] in status.LIVE_STATES:
        detail = f"metadata says {metadata['state']}, but {status.KEEPER_VANISHED}"
        repairs.issues.append(issue("stale_metadata", "error", detail))
        repairs.actions.append(action("fix_metadata"))
    return repairs


def _plan_log(reader: Reader) -> Plan:
    pending = reader.fetch(
        "SELECT request_id, turn_id, tool_call_id, action, resource FROM permissions "
        "WHERE status = 'pending' ORDER BY created_at, request_id"
    )
    questions = []
    if reader.fetch(HAS_QUESTIONS):
        questions = reader.fetch(
            "SELECT request_id, turn_id, tool_call_id FROM questions "
            "WHERE status = 'pending' ORDER BY created_at, request_id"
        )
    repairs = plan(
        _open_turn_rows(reader),
        timestamp(),
        map(Permission._make, pending),
        map(OpenQuestion._make, questions),
    )
    for (turn_id,) in reader.fetch("SELECT turn_id FROM inputs WHERE status = 'dispatching' ORDER BY id"):
        summary = "the prompt was sent when its keeper died; it is not sent again by itself"
        repairs.issues.append(issue("interrupted_input", "warning", summary, turn_id))
        repairs.actions.append(action("interrupt_input", turn_id))
        repairs.drafts.append(marker("prompt_interrupted", summary, severity="warning"))
    return repairs


def _open_turn_rows(reader: Reader) -> list[Row]:
    """Return the rows of every turn that has no end, found without scanning the log."""
    bounds = reader.fetch(
        "SELECT turn_id, min(sequence), max(type IN ('done', 'error')) FROM events "
        f"WHERE {LANDMARK} AND turn_id != '' GROUP BY turn_id"
    )
    rows: list[Row] = []
    for turn_id, first, ended in bounds:
        if not ended:
            rows += reader.rows(Query(turn=turn_id), after=first - 1)
    return sorted(rows)


def _append(lock: Lock, metadata: Meta, drafts: list[Draft]) -> list[Row]:
    with Writer(lock, metadata["agent_name"]) as writer, writer.transaction() as connection:
        rows = writer.append(drafts)
        now = timestamp()
        connection.execute(
            "UPDATE permissions SET status = 'expired', decision = 'expired', decided_at = ? "
            "WHERE status = 'pending'",
            [now],
        )
        connection.execute(
            "UPDATE questions SET status = 'orphaned', decision = 'orphaned', decided_by = 'repair', "
            "decided_at = ? WHERE status = 'pending'",
            [now],
        )
        connection.execute(
            "UPDATE inputs SET status = 'interrupted', updated_at = ? WHERE status = 'dispatching'", [now]
        )
    return rows


def _write_metadata(session: Session, metadata: Meta, closed_turns: int, orphaned: int) -> None:
    with Reader(session) as reader:
        last = reader.last_sequence()
    repaired: Any = status.effective_meta(metadata, lock_held=False)
    repaired |= {"launch": None, "last_sequence": last, "updated_at": timestamp()}
    repaired["turns"] = (metadata.get("turns") or 0) + closed_turns
    repaired["orphaned_questions"] = (metadata.get("orphaned_questions") or 0) + orphaned
    meta.write(session, repaired)


def _report(session_id: str, repairs: Plan, *, persisted: bool) -> Report:
    return {
        "session_id": session_id,
        "issues": repairs.issues,
        "actions": repairs.actions,
        "persisted": persisted,
    }
