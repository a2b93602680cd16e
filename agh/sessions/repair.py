"""Repairing a session whose keeper died.

Promises: repair only appends, all or nothing; repeating it changes nothing; it never touches a live session.
`agh session repair` calls it, and so does every start of a session, with the lock it already holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agh.core import status
from agh.core.events import Draft, Row, draft, marker, timestamp
from agh.core.repair import Fields, Plan, action, issue, plan
from agh.errors import AghError, EventsEmpty, EventsLost, SessionBusy, SessionLive
from agh.home import Session
from agh.keeper.leash.leftovers import end_leftovers
from agh.store import lock as locks
from agh.store import meta
from agh.store.caches.complete_logs import CompleteLogs
from agh.store.create import delete_temporary
from agh.store.lock import Lock
from agh.store.meta import Meta
from agh.store.reader import Reader
from agh.store.unfinished import read_unfinished
from agh.store.writer import Writer

Report = dict[str, Any]
NOT_SENT_AGAIN = (
    "the keeper died while the agent was working on this prompt; agh does not send it again by itself"
)
MOST_LOST = 100_000  # more than a disk loses; the metadata is more likely to be wrong
_NEEDS_A_LOOK = ("agent_crashed", "error")


def repair_each(
    sessions: Iterable[Session], *, dry_run: bool = False, force: bool = False
) -> Iterator[Report]:
    """Repair many sessions and yield their reports. One that is live or damaged does not stop the others."""
    complete = CompleteLogs()
    for session in sessions:
        try:
            yield repair(session, dry_run=dry_run, force=force, complete=complete)
        except (SessionLive, SessionBusy):
            yield _report(session.id, Plan(), persisted=False) | {"skipped": "live"}
        except AghError as error:
            yield _report(session.id, Plan(), persisted=False) | {"error": error.as_dict()}
    complete.save()


def repair(
    session: Session, *, dry_run: bool = False, force: bool = False, complete: CompleteLogs | None = None
) -> Report:
    """Repair a session that is not live and return what was, or would be, done.

    `complete` knows sessions that need not be read.
    """
    nothing_to_do = _report(session.id, Plan(), persisted=False)
    if complete and not force and complete.contains(session):
        return nothing_to_do  # if it is about to be live, too
    metadata = meta.read(session)
    if locks.is_held(session):
        raise SessionLive(metadata["id"])
    if ended_well(metadata) and not force and not count_lost(session, metadata):
        if complete:
            complete.add(session)
        return nothing_to_do
    if metadata.get("mirror") and dry_run:
        return nothing_to_do
    if dry_run:
        return _report(metadata["id"], _plan(session, metadata, thorough=True), persisted=False)
    lock = locks.take(session)
    if lock is None:
        raise SessionBusy(metadata["id"])
    with lock:
        return repair_locked(lock, thorough=True)


def repair_locked(lock: Lock, *, thorough: bool = False, end: Draft | None = None) -> Report:
    """Repair the session whose lock is held: its processes, its log, then the metadata that speaks of it.

    `end` is the last event of a session whose keeper could not write it, unless the keeper just vanished.
    `thorough` reads every tool call of the log, to find those that ended turns have left open. Keepers close
    such calls themselves, so a start need not look for them.
    """
    metadata = meta.read(lock.session)
    delete_temporary(lock.session, owned=True)
    if metadata.get("mirror"):
        return _repair_mirror(lock.session, metadata)
    end_leftovers(metadata)
    lost = count_lost(lock.session, metadata)
    if lost:
        fill_lost(lock, metadata["agent_name"], lost)
    repairs = _plan(lock.session, metadata, thorough, end)
    if repairs.events:
        # The actions that append come first, each with one event, in the same order.
        for act, row in zip(repairs.actions, _append(lock, metadata, repairs.drafts), strict=False):
            act["event_id"] = row.id
    if lost:
        repairs.issues.append(issue("lost_events", "error", f"the log lacked {lost} events at its end"))
        repairs.actions.append(action("mark_lost_events"))
    if repairs.actions:
        codes = [act["code"] for act in repairs.actions]
        _write_metadata(lock.session, metadata, codes.count("append_error"), codes.count("orphan_question"))
    for act in repairs.actions:
        act["persisted"] = True
    return _report(metadata["id"], repairs, persisted=bool(repairs.actions))


def _repair_mirror(session: Session, metadata: Meta) -> Report:
    """Repair only the metadata of a mirror: its log is pulled, and what it lacks comes with the next pull."""
    repairs = Plan()
    if metadata["state"] in status.LIVE_STATES:
        repairs.issues.append(issue("stale_metadata", "error", "the connection ended without notice"))
        repairs.actions.append(action("fix_metadata"))
        repaired: Any = status.effective_meta(metadata, lock_held=False) | {"updated_at": timestamp()}
        repaired |= {"stop_reason": "shutdown", "failure": None, "stop_detail": status.MIRROR_CUT}
        meta.write(session, repaired)
    return _report(metadata["id"], repairs, persisted=bool(repairs.actions))


def count_lost(session: Session, metadata: Meta) -> int:
    """Return how many events the metadata knows of that are not in the log; refuse a log that lost all."""
    with Reader(session) as reader:
        return _count_lost(metadata, reader.last_sequence())


def _count_lost(metadata: Meta, last_sequence: int) -> int:
    recorded = metadata.get("last_sequence") or 0
    if recorded and not last_sequence:
        raise EventsEmpty(metadata["id"])
    return max(0, recorded - last_sequence)


def fill_lost(lock: Lock, agent_name: str, lost: int) -> None:
    """Append an event for each that is lost, so that no sequence is ever used for another, and a marker."""
    with Writer(lock, agent_name) as writer:
        last = writer.last_sequence
        if lost > MOST_LOST:
            raise EventsLost(writer.session_id, last, last + lost)
        summary = f"{lost} events were lost: the log ended at event {last} of {last + lost}"
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


def _plan(session: Session, metadata: Meta, thorough: bool, end: Draft | None = None) -> Plan:
    with Reader(session) as reader:
        unfinished = reader.snapshot(lambda: read_unfinished(reader, thorough=thorough))
    repairs = plan(
        unfinished.rows, timestamp(), unfinished.permissions, unfinished.questions, unfinished.ended
    )
    for turn_id in unfinished.prompts:
        repairs.issues.append(issue("interrupted_input", "warning", NOT_SENT_AGAIN, turn_id))
        repairs.actions.append(action("interrupt_input", turn_id))
        repairs.events.append(marker("prompt_interrupted", NOT_SENT_AGAIN, severity="warning"))
    is_live = metadata["state"] in status.LIVE_STATES
    if is_live and not unfinished.has_stopped:
        repairs.actions.append(action("append_session_stopped"))
        repairs.events.append(end or _crash(metadata))
    if lost := _count_lost(metadata, unfinished.last_sequence):
        repairs.issues.append(issue("lost_events", "error", f"the log lacks {lost} events at its end"))
    if is_live:
        detail = f"metadata says {metadata['state']}, but {status.KEEPER_VANISHED}"
        repairs.issues.append(issue("stale_metadata", "error", detail))
        repairs.actions.append(action("fix_metadata"))
    return repairs


def _crash(metadata: Meta) -> Fields:
    """Return the last event of a keeper that vanished."""
    stopped = status.effective_meta(metadata, lock_held=False)
    fields = {
        "agent_session": metadata.get("acp_session_id"),
        "stop_reason": stopped["stop_reason"],
        "text": stopped["stop_detail"],
        "failure": stopped["failure"],
        "spent": stopped.get("spent"),
    }
    return "session_stopped", fields


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
    from agh.sessions.parked.log import parking_fields  # few sessions are repaired

    with Reader(session) as reader:
        last = reader.last_sequence()
        parking = parking_fields(reader, metadata)
    repaired: Any = status.effective_meta(metadata, lock_held=False) | parking
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
