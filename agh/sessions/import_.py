"""A file as a session. Promises: the file is only read; a session appears when it is complete, or not at
all; what a file from others says cannot make anything run; the same conversation is one session.

A conversation that an agent wrote has an id that follows from the agent's own: two imports at once meet in
the same place. Its file may grow: what is new is appended, as long as the log holds nothing that the file
does not.
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
from typing import Any, NamedTuple

from agh.core.events import TURN_END_TYPES, Row, draft
from agh.core.exchange import TRUSTED, Imported, Importer, TableRow, select_metadata
from agh.errors import AghError, ImportInvalid, SessionExists, StoreFailed
from agh.home import SESSION_ID, new_session_id, session_id_of, session_path
from agh.sessions.build import build, fill
from agh.store import lock, meta, sessions
from agh.store.reader import Query, Reader
from agh.store.writer import Writer

Outcome = dict[str, Any]
Records = list[Row | TableRow]
CLOSED = "import"  # in `closed_by`: an end of a turn that the file does not tell
_WAITING = ("queued", "dispatching")


class Known(NamedTuple):
    """What is here already: agents' own session ids, and files as they were, each with its directory."""

    tokens: dict[str, str]
    files: dict[tuple[str, int, int], str]


def intake(
    path: str,
    importer: Importer,
    known: Known,
    *,
    new_id: bool = False,
    trust: bool = False,
    workspace: str | None = None,
) -> Outcome:
    """Import one file; what became of it."""
    try:
        if not new_id and (here := known.files.get(_as_it_is(path))):
            return _outcome(path, here, "unchanged", 0)
        with _blamed(importer):
            found = importer.read(path)
        found = replace(found, records=_told(importer, found.records))
        session = select_metadata(found.session, trust=trust)
        own_id = found.session.get("id")
        if own_id is not None and not SESSION_ID.fullmatch(str(own_id)):
            raise ValueError(f"{own_id!r} is not the id of a session")
        if own_id is None and not session.get("acp_session_id"):
            raise ValueError("it has neither an id nor an acp_session_id")
        if workspace is not None:
            session["workspace_path"] = os.path.realpath(workspace)
        if own_id is None:
            return _foreign(path, importer, found, session, known)
        left_out = [key for key in TRUSTED if found.session.get(key) and not trust]
        return _own(path, importer, found, session, new_id, trust) | {"left_out": left_out}
    except ValueError as error:
        raise ImportInvalid(path, error) from None
    except sqlite3.Error as error:
        raise ImportInvalid(path, error) from None
    except StoreFailed as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            raise ImportInvalid(path, error.__cause__) from None
        raise


@contextmanager
def _blamed(importer: Importer) -> Iterator[None]:
    """Whatever an importer stumbles over is a fault of the file, or of the importer, which is named."""
    try:
        yield
    except (ValueError, AghError):
        raise
    except OSError as error:
        raise ValueError(error.strerror) from error
    except Exception as error:
        raise ValueError(f"the importer {importer.name} failed: {type(error).__name__}: {error}") from error


def _told(importer: Importer, records: Iterable[Row | TableRow]) -> Iterator[Row | TableRow]:
    with _blamed(importer):
        yield from records


def look_around() -> Known:
    """One look at the metadata of every session."""
    known = Known({}, {})
    for directory, stored in sessions.scan():
        if isinstance(stored, dict):
            known.tokens.update(dict.fromkeys(stored.get("acp_session_ids") or [], directory))
            if source := stored.get("imported"):
                known.files[source["path"], source["size"], source["mtime_ns"]] = directory
    return known


def _as_it_is(path: str) -> tuple[str, int, int]:
    seen = os.stat(path)
    return os.path.abspath(path), seen.st_size, seen.st_mtime_ns


def _own(
    path: str, importer: Importer, found: Imported, session: Outcome, new_id: bool, trust: bool
) -> Outcome:
    target = session_path(str(found.session["id"]) if not new_id else new_session_id())
    if new_id:
        # They belong to the origin: two sessions must not share an agent's conversation, nor its files.
        session |= {"acp_session_id": None, "acp_session_ids": [], "name": None, "worktree": None}
    if not os.path.isdir(target):
        try:
            return _outcome(path, target, "imported", build(target, session, _tamed(found.records, trust)))
        except SessionExists:  # another import was quicker: look at what it made
            found = importer.read(path)
    if all(_same(*pair) for pair in _side_by_side(target, found.records)):
        return _outcome(path, target, "unchanged", 0)
    raise SessionExists(os.path.basename(target))


def _foreign(path: str, importer: Importer, found: Imported, session: Outcome, known: Known) -> Outcome:
    token, records = str(session["acp_session_id"]), list(found.records)
    place, size, changed = _as_it_is(path)
    source = {**found.source, "from": importer.name, "path": place, "size": size, "mtime_ns": changed}
    made = datetime.fromisoformat(session["created_at"])
    noise = sha256(f"{importer.name}\0{token}".encode()).digest()
    target = known.tokens.get(token) or session_path(session_id_of(int(made.timestamp() * 1000), noise))
    if not records:
        return _outcome(path, None, "skipped", 0, "nothing was said in it")
    if not os.path.isdir(target):
        session |= {"acp_session_ids": [token], "imported": source, "stop_reason": "completed"}
        try:
            return _outcome(path, target, "imported", build(target, session, _closed(records, token)))
        except SessionExists:
            pass  # another import was quicker: look at what it made
    earlier = meta.read(target).get("imported")
    if not earlier:
        return _outcome(path, target, "skipped", 0, "it is the conversation of this session already")
    if earlier == source:
        return _outcome(path, target, "unchanged", 0)
    return _grow(path, target, records, source, token)


def _grow(path: str, target: str, records: Records, source: Outcome, token: str) -> Outcome:
    """Append what the file has more than the log; nothing when the log went its own way."""
    held = lock.take(target)
    if held is None:
        return _outcome(path, target, "skipped", 0, "the session is live")
    with held:
        fresh = []
        for ours, theirs in _side_by_side(target, records, closed=False):
            if theirs is None or (ours is not None and not _same(ours, theirs)):
                reason = "the session went on in agh, or the file was written anew"
                return _outcome(path, target, "skipped", 0, reason)
            if ours is None:
                fresh.append(theirs)
        stored = meta.read(target)
        if fresh:
            ended = {row.turn_id for row in _ends(target)}
            with Writer(held, stored["agent_name"]) as log:
                numbered = [row._replace(sequence=n) for n, row in enumerate(fresh, log.last_sequence + 1)]
                others = [one for one in records if isinstance(one, TableRow)]
                fill(log, _closed([*numbered, *others], token, ended))
                stored["last_sequence"] = log.last_sequence
            stored["turns"] = len({one.turn_id for one in records if isinstance(one, Row)} - {""})
            stored["updated_at"] = max(stored["updated_at"], fresh[-1].timestamp)
        stored["imported"] = source
        meta.write(target, stored)
    return _outcome(path, target, "grown" if fresh else "unchanged", len(fresh))


def _tamed(records: Iterable[Row | TableRow], trust: bool) -> Iterator[Row | TableRow]:
    """A prompt that waited is not sent by itself when a stranger's session is resumed."""
    for one in records:
        if isinstance(one, TableRow) and one.table == "inputs" and not trust:
            waits = one.row.get("status") in _WAITING
            one = TableRow(one.table, one.row | ({"status": "interrupted"} if waits else {}))
        yield one


def _closed(
    records: Iterable[Row | TableRow], token: str, ended: Iterable[str] = ()
) -> Iterator[Row | TableRow]:
    """The records, and an end for the last turn if it has its answer and the file does not tell its end.

    A turn that stops anywhere else was cut off; the next resume closes it and says so.
    """
    finished, last, sequence, others = set(ended), None, 0, []
    for one in records:
        if isinstance(one, TableRow):
            others.append(one)
            continue
        yield one
        sequence, last = one.sequence, one if one.turn_id else last
        if one.type in TURN_END_TYPES:
            finished.add(one.turn_id)
    if last is not None and last.type == "agent_message" and last.turn_id not in finished:
        fields = {"stop_reason": "end_turn", "closed_by": CLOSED}
        end = draft("done", turn_id=last.turn_id, agent_session=token, at=last.timestamp, **fields)
        yield Row(sequence + 1, end.turn_id, end.type, last.agent_name, end.content, end.timestamp)
    yield from others


def _side_by_side(
    directory: str, records: Iterable[Row | TableRow], closed: bool = True
) -> Iterator[tuple[Row | None, Row | None]]:
    """Each event of the log with that of the file; None where one of them has no more."""
    with Reader(directory) as reader:
        ours = (row for row in reader.rows() if closed or f'"closed_by":"{CLOSED}"' not in row.content)
        theirs = (one for one in records if isinstance(one, Row))
        yield from zip_longest(ours, theirs)


def _same(ours: Row | None, theirs: Row | None) -> bool:
    """Whether the log tells this event of the file; a log may tell more."""
    return theirs is None or (ours is not None and ours[1:] == theirs[1:])


def _ends(directory: str) -> list[Row]:
    with Reader(directory) as reader:
        return list(reader.rows(Query(TURN_END_TYPES)))


def _outcome(
    path: str, directory: str | None, status: str, events: int, reason: str | None = None
) -> Outcome:
    session_id = os.path.basename(directory) if directory else None
    return {"path": path, "session_id": session_id, "status": status, "events": events, "reason": reason}
