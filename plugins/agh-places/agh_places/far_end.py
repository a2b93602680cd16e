"""The far end of a mirror's connection: `agh relay ID`, run by the agh that keeps the session.

It reads the session's log and sends what is new, and it asks the session's keeper what the other side wants
asked. It is a command like any other: it writes nothing, and the session continues without it.

Lines of JSON. In: first `{"after", "create", "start"}`, then `{"number", "request"}`. Out: `{"greeting"}`
before anything is read, then `{"live"}` or `{"error"}`, then
`{"rows", "tables", "meta"}` and `{"number", "ok" or "error"}`; last `{"ended"}`.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import orjson

from agh import __version__
from agh.errors import AghError, SessionNotFound
from agh.home import Session, is_session_id, session_of
from agh.keeper import client
from agh.sessions.elsewhere.pulled import KEYS
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.store import lock as locks
from agh.store import meta
from agh.store.reader import EVERYTHING, Reader
from agh.store.watch import Watch

ANSWER_LIMIT = 60.0
BEAT = 10.0  # seconds; a connection that is cut is noticed by what cannot be written to it
_writing = threading.Lock()


def serve_mirror(session_id: str) -> None:
    """Serve a mirror on the standard streams until the session or the connection ends."""
    _write({"greeting": __version__})
    opening = orjson.loads(sys.stdin.buffer.readline())
    session = session_of(session_id)
    try:
        hello = _find_or_start(session, opening)
    except AghError as error:
        _write({"error": error.for_relay()})
        return
    _write({"live": hello})
    threading.Thread(target=_serve_requests, args=(session,), daemon=True).start()
    _send_news(session, int(opening["after"]))


def _find_or_start(session: Session, opening: dict[str, Any]) -> dict[str, Any]:
    """Make the session live, or leave it stopped if nobody needs it; create it if it is to be new.

    Its id makes that safe to repeat: a session that was created before the connection broke is found.
    """
    if not is_session_id(session.id):
        raise SessionNotFound(session.id)
    if not os.path.isdir(session):
        if not opening.get("create"):
            raise SessionNotFound(session.id)
        _, hello = create(session_id=session.id, discard=True, **opening["create"])
        return hello
    if opening["start"] or locks.is_held(session):
        return ensure_live(session, waits_for_slot=False)
    return {}


def _serve_requests(session: Session) -> None:
    """Pass requests on to the keeper until the connection ends, and this process with it."""
    try:
        for line in sys.stdin.buffer:
            threading.Thread(target=_serve, args=(session, orjson.loads(line)), daemon=True).start()
    finally:
        os._exit(0)


def _serve(session: Session, message: dict[str, Any]) -> None:
    request = dict(message["request"])
    try:
        answer = {"ok": client.call(session, request.pop("verb"), limit=ANSWER_LIMIT, **request)}
    except AghError as error:
        answer = {"error": error.for_relay()}
    _write({"number": message["number"], **answer})


def _send_news(session: Session, after: int) -> None:
    """Send what is new in the log, the tables and the metadata until the session has ended."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {table: {} for table in KEYS}
    sent: Any = None
    beat = threading.Timer(BEAT, _beat)
    beat.daemon = True
    beat.start()
    with Watch() as watch:
        watch.add(session)
        is_last = False
        while True:
            is_live = locks.is_held(session)
            metadata = meta.read(session)
            with Reader(session) as reader:
                rows = reader.page(EVERYTHING, after, reader.last_sequence())
                changes = _find_changes(reader, tables) if rows or metadata != sent else {}
            if rows or changes or metadata != sent:
                _write({"rows": [list(row) for row in rows], "tables": changes, "meta": metadata})
                after, sent = rows[-1].sequence if rows else after, metadata
                watch.note_change()
                is_last = False
            elif not is_live and is_last:
                _write({"ended": metadata})
                return
            else:
                is_last = not is_live
                watch.wait(1.0)


def _find_changes(
    reader: Reader, tables: dict[str, dict[Any, dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the other tables that are new or have changed, and note them in `tables`."""
    changes = {}
    for table, key in KEYS.items():
        names = [name for (name,) in reader.fetch("SELECT name FROM pragma_table_info(?)", [table])]
        values = reader.fetch(f"SELECT {', '.join(names)} FROM {table}") if names else []
        rows = [dict(zip(names, row, strict=True)) for row in values]
        changed = [row for row in rows if tables[table].get(row[key]) != row]
        tables[table] |= {row[key]: row for row in changed}
        if changed:
            changes[table] = changed
    return changes


def _beat() -> None:
    _write({})
    timer = threading.Timer(BEAT, _beat)
    timer.daemon = True
    timer.start()


def _write(message: dict[str, Any]) -> None:
    """Write a line. If nobody reads it any more, this process is of no use."""
    with _writing:
        try:
            sys.stdout.buffer.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            sys.stdout.buffer.flush()
        except OSError:
            os._exit(0)
