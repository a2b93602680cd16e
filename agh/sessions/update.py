"""Changing what people may change about a session, through its keeper when there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import starmap
from typing import Any

from agh.core.events import MARKER_REDACTED, Row, draft
from agh.errors import KeeperGone, SessionBusy, SessionLive, SessionMirrored, Usage
from agh.home import Session
from agh.keeper import client
from agh.sessions.new import check_mode, check_name
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.reader import EVERYTHING, Query, Reader
from agh.store.views import session_view, update_metadata


def rename(session: Session, name: str) -> None:
    """Give the session a name; the empty one takes it away."""
    with sessions.lock_names(name):
        if name:
            check_name(name, sessions.workspaces(meta.read(session)), session)
        _change(session, name=name or None)


def archive(session: Session, *, undo: bool = False) -> None:
    """Put a session that is not live away, or take it out of the archive."""
    session_id = session.id
    if locks.is_held(session) and not undo:
        raise SessionLive(session_id)
    with sessions.lock_names():
        view = session_view(session)
        if undo and view.get("name"):
            check_name(view["name"], sessions.workspaces(view), session)
        _change(session, archived=not undo)


def choose(session: Session, choices: Mapping[str, str]) -> None:
    """Choose the agent's model, mode and other options, or the session's permissions: all of them or none."""
    options = {name: value for name, value in choices.items() if name != "permissions"}
    permissions = choices.get("permissions")
    if permissions is not None:
        check_mode(permissions)
    if len(choices) > 1:
        _check_options(session, options)
    for name, value in options.items():
        _choose(session, name, value)
    if permissions is not None:
        _change(session, permissions=permissions)


def redact(session: Session, references: Iterable[str]) -> list[dict[str, Any]]:
    """Hide the text of messages and markers wherever agh shows or copies the session; return what was hidden.

    What is hidden already is left out. Nothing is edited: an event says what is hidden.
    """
    from agh.core.redaction.hidden import redaction, rows_with

    groups: list[tuple[Row, list[Row]]] = []
    with Reader(session) as reader:
        for target in [_find_event(reader, reference) for reference in dict.fromkeys(references)]:
            if not target.parsed().get("redacted"):
                turn = reader.rows(Query(turn=target.turn_id)) if target.turn_id else [target]
                groups.append((target, rows_with(turn, target)))
    if groups:
        _append_redactions(
            session, [row for _, rows in groups for row in rows], list(starmap(redaction, groups))
        )
    return [{"marker_id": target.id, "events": [row.id for row in rows]} for target, rows in groups]


def _find_event(reader: Reader, reference: str) -> Row:
    """Return the event that is named, if it has a text that can be hidden."""
    from agh.core.redaction.hidden import REDACTABLE

    digits = reference.removeprefix("evt-")
    number = int(digits) if digits.isdecimal() and len(digits) < 19 else 0
    rows = reader.page(EVERYTHING, number - 1, number) if number else []
    hint = f"agh session transcript {reader.session_id} -o jsonl | jq -r .id"
    if not rows:
        raise Usage(f"{reference!r} is not an event of {reader.session_id}", hint=hint)
    if rows[0].type not in REDACTABLE:
        raise Usage(f"{reference}: an event of type {rows[0].type} has no text to hide", hint=hint)
    return rows[0]


def _append_redactions(session: Session, rows: list[Row], redactions: list[dict[str, Any]]) -> None:
    turn_ids = [row.turn_id for row in rows if row.type == "user_message"]
    call_ids = {str(row.parsed()["tool_call_id"]) for row in rows if row.parsed().get("tool_call_id")}
    title = meta.read(session).get("title")
    prompts = [str(row.parsed().get("text")) for row in rows if row.type == "user_message"]
    metadata: dict[str, Any] = {"last_message": None}  # it may be of one of these rows
    if title and any(title.rstrip("…") in text for text in prompts):
        metadata["title"] = None
    question_ids = {str(row.parsed().get("request_id")) for row in rows if row.type == "question"}
    tables: Any = {"turn_ids": turn_ids, "call_ids": sorted(call_ids), "question_ids": sorted(question_ids)}
    try:
        client.call(session, "redact", redactions=redactions, metadata=metadata, **tables)
    except KeeperGone:
        lock = locks.take(session)
        if lock is None:
            raise SessionBusy(session.id) from None
        with lock:
            _write_redactions(lock, redactions, metadata, **tables)


def _write_redactions(
    lock: locks.Lock, redactions: list[dict[str, Any]], metadata: dict[str, Any], **tables: list[str]
) -> None:
    from agh.keeper.checkpoint import derive
    from agh.store import checkpoint
    from agh.store.rows import redact_tables
    from agh.store.writer import Writer

    current: Any = meta.read(lock.session)
    with Writer(lock, current["agent_name"]) as writer, writer.transaction() as connection:
        writer.append([draft(MARKER_REDACTED, **fields) for fields in redactions])
        redact_tables(connection, **tables)
        last = writer.last_sequence
    meta.write(lock.session, current | metadata | {"last_sequence": last})
    if checkpoint.exists(lock.session):
        checkpoint.write(lock.session, derive(lock.session))


def _check_options(session: Session, options: Mapping[str, str]) -> None:
    """Refuse what a live session's agent does not offer, before anything is chosen."""
    try:
        for name, value in options.items():
            client.call(session, "set", name=name, value=value, check=True)
    except KeeperGone:
        pass  # what the agent offers shows at the next resume


def _choose(session: Session, name: str, value: str) -> None:
    try:
        client.call(session, "set", name=name, value=value)
    except KeeperGone:
        metadata = meta.read(session)
        if metadata.get("mirror"):
            raise SessionMirrored(session.id) from None
        meta.choose(metadata, name, value)
        update_metadata(session, **{key: metadata.get(key) for key in ("model", "mode", "options")})


def _change(session: Session, **changes: Any) -> None:
    try:
        client.call(session, "update", **changes)
    except KeeperGone:
        if meta.read(session).get("mirror") and changes.keys() - {"name", "archived"}:
            raise SessionMirrored(session.id) from None
        update_metadata(session, **changes)
