"""The list cache: what a table shows of each stopped session, so that a list need not read every meta.json.

Promises: a list from the cache is the list that reading every session would give. The file may be missing,
damaged or old at any time: a session's entry counts only while its meta.json has the same inode, size and
time of change. A session whose metadata says it is live has no entry; its lock and its metadata are read.
Never fails: a cache that cannot be written is not written.

For 10,000 sessions, the cache and the stamps take 0.08 s, reading the metadata 0.22 s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import orjson

from agh.core.status import KEEPER_VANISHED
from agh.home import Session, home_path, replace_private_file
from agh.store import meta

View = dict[str, Any]
Stamp = list[int]  # inode, size, time of change in ns
Entry = tuple[Stamp, View]

FILE = "list.cache"
FORMAT = 1  # to be raised with every change of the fields, or of what follows from metadata in core/status.py
FIELDS = (  # that a list filters by or shows; a brief view has those that have a value
    *("id", "name", "title", "state", "badge", "updated_at", "archived", "agent_name", "model", "current"),
    *("workspace_id", "workspace_path", "worktree", "last_message", "spent", "failure", "resumes_at"),
    *("unanswered_permissions", "orphaned_questions", "activity", "error"),
)
SETTLED_NS = 2_000_000_000  # a file changed again so soon might have the same stamp: no clock is that coarse
FEW = 50  # reading so many sessions takes less time than writing the cache


class BriefCache:
    """The entries of the file, and of these and new ones those that count now."""

    def __init__(self) -> None:
        self._path = os.path.join(home_path(), FILE)
        self._stored = _load(self._path)
        self._valid: dict[str, Entry] = {}
        self._added = 0

    def views(self, sessions: Iterable[Session], read: Callable[[Session], View]) -> list[View]:
        """Return the brief views of sessions: from the cache, or made from what `read` returns."""
        changed_before = time.time_ns() - SETTLED_NS
        briefs = []
        for session in sessions:
            stamp = _stamp(session)  # before the metadata is read: if it is replaced then, the stamp is old
            entry = self._stored.get(session.id)
            if stamp and entry and entry[0] == stamp:
                self._valid[session.id] = entry
                briefs.append(entry[1])
                continue
            brief = _brief(view := read(session))
            if stamp and stamp[2] < changed_before and _is_final(view):
                self._valid[session.id] = stamp, brief
                self._added += 1
            briefs.append(brief)
        return briefs

    def save(self) -> None:
        """Write the entries of this list if enough of them are new."""
        if self._added <= max(FEW, len(self._valid) // 50):
            return
        body = orjson.dumps(self._valid)
        try:
            replace_private_file(self._path, b"%s\n%s" % (_header(body), body), sync=False)
        except OSError:
            pass  # a full disk or a home that may only be read: the next list reads the metadata again


def _stamp(session: Session) -> Stamp | None:
    try:
        info = os.stat(f"{session.directory}/{meta.FILE}")
    except OSError:
        return None
    return [info.st_ino, info.st_size, info.st_mtime_ns]


def _brief(view: View) -> View:
    return {field: view[field] for field in FIELDS if view.get(field) is not None}


def _is_final(view: View) -> bool:
    """Tell whether a view follows from the metadata alone, whoever holds the lock."""
    return view["state"] == "stopped" and view.get("stop_detail") != KEEPER_VANISHED


def _load(path: str) -> dict[str, Entry]:
    """Return the entries of a file that has this format and that nothing has damaged, or none."""
    try:
        with open(path, "rb") as file:
            header, _, body = file.read().partition(b"\n")
    except OSError:
        return {}
    entries: dict[str, Entry] = orjson.loads(body) if header == _header(body) else {}
    return entries


def _header(body: bytes) -> bytes:
    """Return the first line of the cache."""
    return b"agh list %d %08x" % (FORMAT, crc32(body))
