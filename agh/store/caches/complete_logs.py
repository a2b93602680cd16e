"""The repair cache: which sessions ended well and have a complete log, so that not every log is opened.

Promises: a repair with the cache finds what one without it finds. The file may be missing, damaged or old at
any time: an entry counts only while the session's meta.json and its log have the same inode, size and time of
change. Never fails: a cache that cannot be written is not written.

For 1,000 sessions, reading metadata and logs takes 200 ms; comparing the stamps takes 10 ms.
"""

from __future__ import annotations

import os
import time

import orjson

from agh.home import Session, home_path, replace_private_file
from agh.store import meta, reader
from agh.store.caches.stamp import SETTLED_NS, Stamp, stamp_of

FILE = "repair.cache"
FEW = 50  # opening so many logs takes less time than writing the cache

Stamps = tuple[Stamp, Stamp]  # of the metadata and of the log


class CompleteLogs:
    """The sessions whose logs were complete when they were last opened, and those where they are now."""

    def __init__(self) -> None:
        self._path = os.path.join(home_path(), FILE)
        self._settled_before = time.time_ns() - SETTLED_NS
        self._stored = _read(self._path)
        self._valid: dict[str, Stamps] = {}
        self._new: dict[str, Stamps] = {}

    def contains(self, session: Session) -> bool:
        """Tell whether the session ended well with a complete log, and has not changed since."""
        stored = self._stored.get(session.id)
        if stored is None or (stamps := _stamps_of(session)) is None:
            return False
        if stored != [list(stamp) for stamp in stamps]:
            return False
        self._valid[session.id] = stamps
        return True

    def add(self, session: Session) -> None:
        """Remember a session that ended well with a complete log.

        Not if it may have changed since it was read, nor if there is a WAL: what is in it is not in the log's
        own file, whose stamp is compared.
        """
        stamps = _stamps_of(session)
        has_wal = os.path.exists(f"{session.directory}/{reader.FILE}-wal")
        if stamps is not None and max(stamp[2] for stamp in stamps) < self._settled_before and not has_wal:
            self._new[session.id] = stamps

    def save(self) -> None:
        """Write the entries that count if enough of them are new."""
        if len(self._new) <= max(FEW, len(self._valid) // 50):
            return
        try:
            replace_private_file(self._path, orjson.dumps(self._valid | self._new), sync=False)
        except OSError:
            pass  # a full disk or a home that may only be read: the next repair opens the logs again


def _stamps_of(session: Session) -> Stamps | None:
    """Return the stamps of a session's metadata and log; None if one of them is missing."""
    of_meta = stamp_of(f"{session.directory}/{meta.FILE}")
    of_log = stamp_of(f"{session.directory}/{reader.FILE}")
    return (of_meta, of_log) if of_meta and of_log else None


def _read(path: str) -> dict[str, list[list[int]]]:
    """Return the stamps that the file has, by session; nothing if there is no such file, or it is damaged."""
    try:
        with open(path, "rb") as file:
            stored = orjson.loads(file.read())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
