"""Importing a file as a session.

Promises: the file is only read; a session appears when it is complete, or not at all; nothing that the file
says can make anything run; the same conversation is one session.

The id of a conversation that an agent wrote follows from the agent's own id, so two imports at once make one
session. When such a file has grown, what is new is appended, unless the log has events that the file lacks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from agh.core.events import TURN_END_TYPES, Row, draft
from agh.core.exchange import TRUSTED, Imported, Importer, LongRow, Record, TableRow, select_metadata
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError, ImportInvalid, SessionExists, StoreFailed
from agh.home import Session, is_session_id, new_session_id, session_id_of, session_of
from agh.sessions.build import build, fill
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.reader import Query, Reader
from agh.store.writer import Writer

Outcome = dict[str, Any]
Records = list[Record]
CLOSED = "import"  # in `closed_by`: the end of a turn that the file does not have
_WAITING = ("queued", "dispatching")


class Index(NamedTuple):
    """What this home has already: agents' own session ids, and imported files, each with its session."""

    agent_sessions: dict[str, Session]
    files: dict[tuple[str, int, int], Session]


def import_file(
    path: str,
    importer: Importer,
    index: Index,
    *,
    new_id: bool = False,
    trust: bool = False,
    workspace: str | None = None,
) -> Outcome:
    """Import one file and return what became of it."""
    try:
        if not new_id and (here := index.files.get(_file_stamp(path))):
            return _outcome(path, here, "unchanged", 0)
        with _blame(importer):
            imported = importer.read(path)
        imported = replace(imported, records=_read_records(importer, imported.records))
        session = select_metadata(imported.session, trust=trust)
        own_id = imported.session.get("id")
        if own_id is not None and not is_session_id(str(own_id)):
            raise ValueError(f"{own_id!r} is not the id of a session")
        if own_id is None and not session.get("acp_session_id"):
            raise ValueError("it has neither an id nor an acp_session_id")
        if workspace is not None:
            session["workspace_path"] = os.path.realpath(workspace)
        if own_id is None:
            return _import_conversation(path, importer, imported, session, index)
        left_out = [key for key in TRUSTED if imported.session.get(key) and not trust]
        return _import_exported(path, importer, imported, session, new_id, trust) | {"left_out": left_out}
    except ValueError as error:
        raise ImportInvalid(path, error) from None
    except sqlite3.Error as error:
        raise ImportInvalid(path, error) from None
    except StoreFailed as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            raise ImportInvalid(path, error.__cause__) from None
        raise


@contextmanager
def _blame(importer: Importer) -> Iterator[None]:
    """Report what an importer stumbles over as a fault of the file, or of the importer by name."""
    try:
        yield
    except (ValueError, AghError):
        raise
    except OSError as error:
        raise ValueError(error.strerror) from error
    except Exception as error:
        raise ValueError(f"the importer {importer.name} failed: {type(error).__name__}: {error}") from error


def _read_records(importer: Importer, records: Iterable[Record]) -> Iterator[Record]:
    with _blame(importer):
        yield from records


def index_home() -> Index:
    """Index the metadata of every session."""
    index = Index({}, {})
    for session, metadata in sessions.scan():
        if isinstance(metadata, dict):
            index.agent_sessions.update(dict.fromkeys(metadata.get("acp_session_ids") or [], session))
            source = metadata.get("imported") or {}
            if {"path", "size", "mtime_ns"} <= source.keys():
                index.files[source["path"], source["size"], source["mtime_ns"]] = session
    return index


def _file_stamp(path: str) -> tuple[str, int, int]:
    """Return what tells a file from an earlier state of it: path, size and time of change."""
    seen = os.stat(path)
    return os.path.abspath(path), seen.st_size, seen.st_mtime_ns


def _import_exported(
    path: str, importer: Importer, imported: Imported, session: Outcome, new_id: bool, trust: bool
) -> Outcome:
    target = session_of(str(imported.session["id"]) if not new_id else new_session_id())
    if new_id:
        # They belong to the origin: two sessions must not share an agent's conversation, nor its files.
        session |= {"acp_session_id": None, "acp_session_ids": [], "name": None, "worktree": None}
    if not os.path.isdir(target):
        try:
            return _outcome(
                path, target, "imported", build(target, session, _without_waiting(imported.records, trust))
            )
        except SessionExists:  # another import was quicker: look at what it made
            imported = importer.read(path)
    if all(_same(*pair) for pair in _side_by_side(target, imported.records)):
        return _outcome(path, target, "unchanged", 0)
    raise SessionExists(target.id)


def _import_conversation(
    path: str, importer: Importer, imported: Imported, session: Outcome, index: Index
) -> Outcome:
    agent_session, records = str(session["acp_session_id"]), list(imported.records)
    absolute, size, changed = _file_stamp(path)
    source = {**imported.source, "from": importer.name, "path": absolute, "size": size, "mtime_ns": changed}
    created = datetime.fromisoformat(session["created_at"])
    noise = sha256(f"{importer.name}\0{agent_session}".encode()).digest()
    target = index.agent_sessions.get(agent_session) or session_of(
        session_id_of(int(created.timestamp() * 1000), noise)
    )
    if not records:
        return _outcome(path, None, "skipped", 0, "it has no messages")
    if not os.path.isdir(target):
        session |= {"acp_session_ids": [agent_session], "imported": source, "stop_reason": "completed"}
        try:
            return _outcome(
                path, target, "imported", build(target, session, _with_end(records, agent_session))
            )
        except SessionExists:
            pass  # another import was quicker: look at what it made
    earlier = meta.read(target).get("imported")
    if not earlier or "path" not in earlier:
        return _outcome(path, target, "skipped", 0, "this session already has the conversation")
    if earlier == source:
        return _outcome(path, target, "unchanged", 0)
    return _append_new(path, target, records, source, agent_session)


def _append_new(path: str, target: Session, records: Records, source: Outcome, agent_session: str) -> Outcome:
    """Append the events that only the file has; nothing if the log has events that the file lacks."""
    lock = locks.take(target)
    if lock is None:
        return _outcome(path, target, "skipped", 0, "the session is live")
    with lock:
        fresh = []
        for ours, theirs in _side_by_side(target, records, closed=False):
            if theirs is None or (ours is not None and not _same(ours, theirs)):
                reason = "the session continued in agh, or the file was rewritten"
                return _outcome(path, target, "skipped", 0, reason)
            if ours is None:
                fresh.append(theirs)
        metadata = meta.read(target)
        if fresh:
            ended = {row.turn_id for row in _turn_ends(target)}
            with Writer(lock, metadata["agent_name"]) as log:
                numbered = [row._replace(sequence=n) for n, row in enumerate(fresh, log.last_sequence + 1)]
                others = [record for record in records if isinstance(record, TableRow)]
                fill(log, _with_end([*numbered, *others], agent_session, ended))
                metadata["last_sequence"] = log.last_sequence
            metadata["turns"] = len(
                {record.turn_id for record in records if not isinstance(record, TableRow)} - {""}
            )
            metadata["updated_at"] = max(metadata["updated_at"], fresh[-1].timestamp)
        metadata["imported"] = source
        meta.write(target, metadata)
    return _outcome(path, target, "grown" if fresh else "unchanged", len(fresh))


def _without_waiting(records: Iterable[Record], trust: bool) -> Iterator[Record]:
    """Mark waiting prompts as interrupted, so that resuming a stranger's session sends none of them."""
    for record in records:
        if isinstance(record, TableRow) and record.table == "inputs" and not trust:
            waits = record.row.get("status") in _WAITING
            record = TableRow(record.table, record.row | ({"status": "interrupted"} if waits else {}))
        yield record


def _with_end(records: Iterable[Record], agent_session: str, ended: Iterable[str] = ()) -> Iterator[Record]:
    """Yield the records, and an end for the last turn if it has its answer but no end in the file.

    A turn that stops anywhere else was cut off; the next resume closes it and says so.
    """
    finished, last, sequence, others = set(ended), None, 0, []
    for record in records:
        if isinstance(record, TableRow):
            others.append(record)
            continue
        yield record
        sequence, last = record.sequence, record if record.turn_id else last
        if record.type in TURN_END_TYPES:
            finished.add(record.turn_id)
    if last is not None and last.type == "agent_message" and last.turn_id not in finished:
        fields = {"stop_reason": "end_turn", "closed_by": CLOSED}
        end = draft("done", turn_id=last.turn_id, agent_session=agent_session, at=last.timestamp, **fields)
        yield Row(sequence + 1, end.turn_id, end.type, last.agent_name, end.content, end.timestamp)
    yield from others


def _side_by_side(
    session: Session, records: Iterable[Record], closed: bool = True
) -> Iterator[tuple[Row | None, Row | LongRow | None]]:
    """Pair each event of the log with that of the file; None where one of them has no more."""
    with Reader(session) as reader:
        ours = (row for row in reader.rows() if closed or f'"closed_by":"{CLOSED}"' not in row.content)
        theirs = (record for record in records if not isinstance(record, TableRow))
        yield from zip_longest(ours, theirs)


def _same(ours: Row | None, theirs: Row | LongRow | None) -> bool:
    """Tell whether the log has this event of the file; a log may have more."""
    if isinstance(theirs, LongRow):
        return ours is not None and ours[1:4] == theirs[1:4] and ours.content.encode() == theirs.content
    return theirs is None or (ours is not None and ours[1:] == theirs[1:])


def _turn_ends(session: Session) -> list[Row]:
    with Reader(session) as reader:
        return list(reader.rows(Query(TURN_END_TYPES)))


def _outcome(
    path: str, session: Session | None, status: str, events: int, reason: str | None = None
) -> Outcome:
    session_id = session.id if session else None
    return {"path": path, "session_id": session_id, "status": status, "events": events, "reason": reason}
