"""Reviving sessions whose usage limit has reset, for cron and timers.

Promises: a prompt is sent once, however many processes call this at the same time: the session's lock gives
it one keeper, and the keeper takes the prompt out of the queue. A session whose question waits is left
alone. The agent is looked for where it was when its prompt was parked, whatever PATH is now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

from agh import config
from agh.adapters.env_file import add_variables
from agh.core.parking import has_open_question, is_due, missing_variables
from agh.core.status import LIVE_STATES
from agh.errors import AghError, KeeperGone
from agh.home import Session
from agh.sessions.parked.log import parking_fields
from agh.sessions.queue import cancel_inputs, read_inputs
from agh.sessions.start import ensure_live
from agh.store import lock as locks
from agh.store import meta, sessions
from agh.store.meta import Meta
from agh.store.reader import Reader
from agh.store.views import session_view


class Parked(TypedDict):
    """A parked session, and what happens to it next or has just happened."""

    session_id: str
    name: str | None
    resumes_at: str
    status: str  # waiting, live, question, paused, due, started or failed
    missing: list[str]  # variables that the agent had when its prompt was parked
    error: dict[str, Any] | None


def list_parked() -> list[Parked]:
    """List the sessions with a parked prompt, the earliest reset first."""
    environ = _environment()
    parked = (
        (session, _with_log(session, metadata))
        for session, metadata in sessions.scan()
        if isinstance(metadata, dict)
    )
    rows = [
        _describe(session, metadata, environ)
        for session, metadata in parked
        if metadata.get("resumes_at") and not metadata.get("archived")
    ]
    return sorted(rows, key=lambda row: (row["resumes_at"], row["session_id"]))


def run_due() -> list[Parked]:
    """Start the sessions whose time has come; their keepers send the prompts. List all parked ones."""
    return [_revive(row) if row["status"] == "due" else row for row in list_parked()]


def cancel_parked(session: Session) -> dict[str, Any]:
    """Cancel the parked prompt of a session that is not live, and return the turn that it will not have."""
    number = (meta.read(session).get("limited") or {}).get("input_id")
    for row in read_inputs(session, everything=False):
        if row["id"] == number and row["status"] == "queued":
            cancel_inputs(session, number)
            return {"turn_id": row["turn_id"]}
    raise KeeperGone(session.id)


def _with_log(session: Session, metadata: Meta) -> Meta:
    """Return the metadata; of a session that was killed, with what only its log says of a parked prompt."""
    if metadata.get("state") not in LIVE_STATES or locks.is_held(session):
        return metadata
    try:
        with Reader(session) as reader:
            fields: Any = parking_fields(reader, metadata)
    except AghError:  # a damaged log: `repair` and `doctor` tell
        return metadata
    metadata |= fields
    return metadata


def _environment() -> Mapping[str, str]:
    """Return the variables that an agent would get here; a file of keys that is refused adds none."""
    try:
        return add_variables(config.load()["env.file"], os.environ)
    except AghError:
        return os.environ


def _describe(session: Session, metadata: Meta, environ: Mapping[str, str]) -> Parked:
    return {
        "session_id": session.id,
        "name": metadata.get("name"),
        "resumes_at": str(metadata.get("resumes_at")),
        "status": _status(session, metadata),
        "missing": missing_variables(metadata, environ),
        "error": None,
    }


def _status(session: Session, metadata: Meta) -> str:
    is_live = locks.is_held(session)
    if has_open_question(metadata, is_live):
        return "question"
    if is_live:
        return "live"
    if session_view(session)["phase"] == "paused":
        return "paused"
    return "due" if is_due(metadata, time.time()) else "waiting"


def _revive(row: Parked) -> Parked:
    session = sessions.resolve(row["session_id"])
    try:
        metadata = _with_log(session, meta.read(session))
        if not metadata.get("resumes_at"):  # another process was quicker
            return {**row, "status": "live"}
        add_variables(config.load(metadata["workspace_path"])["env.file"], {})  # refuse it before it starts
        with _path_of(metadata):
            hello = ensure_live(session)
    except AghError as error:
        return {**row, "status": "failed", "error": error.as_dict()}
    return {**row, "status": "started" if hello["started"] else "live"}


@contextmanager
def _path_of(metadata: Meta) -> Iterator[None]:
    """Look for programs where the session's agent was found, and then where this process does."""
    own, saved = os.environ.get("PATH"), (metadata.get("limited") or {}).get("path")
    if isinstance(saved, str) and saved:
        os.environ["PATH"] = f"{saved}{os.pathsep}{own}" if own else saved
    try:
        yield
    finally:
        if own is None:
            os.environ.pop("PATH", None)
        else:
            os.environ["PATH"] = own
