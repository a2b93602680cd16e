"""The list cache: brief and JSON of each stopped session, so that a list need not read every meta.json.

Promises: a list from the cache is the list that reading every session would give. The file may be missing,
damaged or old at any time: a session's entry counts only while its meta.json has the same inode, size and
time of change. A session whose metadata says it is live has no entry; its lock and its metadata are read.
Never fails: a cache that cannot be written is not written.

Of 10,000 sessions, reading the metadata takes 250 ms; comparing the stamps 27 ms, most of it in the kernel.
"""

from __future__ import annotations

import marshal
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any
from zlib import crc32

from agh.core.display.brief import Brief, brief_of
from agh.core.status import KEEPER_VANISHED
from agh.home import Session, home_path, replace_private_file, sessions_path
from agh.store import meta, sessions
from agh.store.caches.stamp import SETTLED_NS, Stamp, stamp_of

View = dict[str, Any]

FILE = "list.cache"
FORMAT = 3  # to be raised with every change of a brief, or of what follows from metadata in core/status.py
_ID = Brief._fields.index("id")
FEW = 50  # reading so many sessions takes less time than writing the cache


class BriefCache:
    """The entries of the file that still count, and the sessions that had to be read.

    `read` yields the views of sessions. `views` has those of the sessions that were not in the file.
    """

    def __init__(self, read: Callable[[Iterable[Session]], Iterable[View]]) -> None:
        self.views: dict[str, View] = {}
        self._read = read
        self._file = CacheFile(os.path.join(home_path(), FILE))
        self._valid: list[int] = []  # which entries of the file count
        self._new: list[tuple[Stamp, Brief]] = []

    def briefs(self) -> list[Brief]:
        """Return the briefs of all sessions. Those from the file come first, newest activity first."""
        folder = sessions_path()
        self._valid = self._find_valid(folder)
        stored, ids = self._file.briefs, self._file.ids
        if len(self._valid) < len(stored):
            stored = [stored[number] for number in self._valid]
            ids = [ids[number] for number in self._valid]
        others = sessions.session_ids(besides=ids)
        return [*stored, *self._read_briefs([Session(id, f"{folder}/{id}") for id in others])]

    def documents(self, ids: Sequence[str]) -> list[bytes | memoryview]:
        """Return the views of these sessions as JSON."""
        others = [id for id in ids if id not in self.views]
        stored = self._file.documents() if len(others) > FEW else {}
        unread = [Session(id, f"{sessions_path()}/{id}") for id in others if id not in stored]
        self.views |= {view["id"]: view for view in self._read(unread)}
        return [_encode(self.views[id]) if id in self.views else stored[id] for id in ids]

    def save(self) -> None:
        """Write the entries of this list if enough of them are new."""
        if len(self._new) <= max(FEW, len(self._valid) // 50):
            return
        entries = [(self._file.stamps[number], self._file.briefs[number]) for number in self._valid]
        entries = sorted(entries + self._new, key=lambda entry: entry[1], reverse=True)
        try:
            self._file.write(entries, self.documents([brief.id for _, brief in entries]))
        except OSError:
            pass  # a full disk or a home that may only be read: the next list reads the metadata again

    def _find_valid(self, folder: str) -> list[int]:
        """Return which entries of the file count. A path from the folder on takes 27 ms, the whole one 32."""
        try:
            base = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        valid = []
        try:
            for number, (id, stamp) in enumerate(zip(self._file.ids, self._file.stamps, strict=True)):
                try:
                    info = os.stat(f"{id}/{meta.FILE}", dir_fd=base)  # a call of ours would add 2 ms
                except OSError:
                    continue
                if (info.st_ino, info.st_size, info.st_mtime_ns) == stamp:
                    valid.append(number)
        finally:
            os.close(base)
        return valid

    def _read_briefs(self, some: Sequence[Session]) -> Iterator[Brief]:
        settled_before = time.time_ns() - SETTLED_NS
        # The stamps first: of a file that is replaced now, the old one is stored.
        stamps = [stamp_of(f"{session.directory}/{meta.FILE}") for session in some]
        for stamp, view in zip(stamps, self._read(some), strict=True):
            self.views[view["id"]] = view
            brief = brief_of(view)
            if stamp and stamp[2] < settled_before and _is_final(view):
                self._new.append((stamp, brief))
            yield brief


class CacheFile:
    """The file: a line with lengths and checksums, then stamps and briefs, then the documents.

    A table does not read the documents, which are nine tenths of it. The first part is in marshal's format:
    10,000 entries take 3 ms, with orjson 9 ms of which its import is 3.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._header = b""
        self._sizes: Sequence[int] = ()  # of the documents
        self._documents: dict[str, memoryview] | None = None
        self.stamps: Sequence[Stamp] = ()
        self.ids: Sequence[str] = ()
        self.briefs: Sequence[Brief] = ()
        try:
            with open(path, "rb") as file:
                header = file.readline(200)
                body = file.read(_first_length(header))
        except OSError:
            return
        if header.startswith(_start(body)):
            self._header = header
            self.stamps, self._sizes, columns = marshal.loads(body)
            columns = [column * (len(self.stamps) // len(column)) for column in columns]
            self.ids = columns[_ID]
            self.briefs = list(map(partial(tuple.__new__, Brief), zip(*columns, strict=True)))

    def documents(self) -> dict[str, memoryview]:
        """Return the documents by the ids of their sessions; none if the file was replaced or damaged."""
        if self._documents is None:
            self._documents = self._read_documents()
        return self._documents

    def _read_documents(self) -> dict[str, memoryview]:
        try:
            with open(self._path, "rb") as file:
                header = file.readline(200)
                file.seek(_first_length(header), os.SEEK_CUR)
                text = memoryview(file.read())
        except OSError:
            return {}
        if header != self._header or not header.endswith(b" %08x\n" % crc32(text)):
            return {}
        limits = pairwise(accumulate(self._sizes, initial=0))
        return {id: text[start:end] for id, (start, end) in zip(self.ids, limits, strict=True)}

    def write(self, entries: Sequence[tuple[Stamp, Brief]], documents: Sequence[bytes | memoryview]) -> None:
        """Replace the file."""
        # The same agent, model or directory is stored once, and so is a column in which all are the same.
        texts: dict[Any, Any] = {}
        columns = [
            [texts.setdefault(value, value) for value in (column if len(set(column)) > 1 else column[:1])]
            for column in zip(*(brief for _, brief in entries), strict=True)
        ]
        body = marshal.dumps(([stamp for stamp, _ in entries], list(map(len, documents)), columns))
        text = b"".join(documents)
        replace_private_file(
            self._path, b"%s %08x\n%s%s" % (_start(body), crc32(text), body, text), sync=False
        )


def _start(body: bytes) -> bytes:
    """Return how the file begins: what it was written by, and the length and checksum of its first part."""
    return b"agh list %d %d %d %08x" % (FORMAT, marshal.version, len(body), crc32(body))


def _first_length(header: bytes) -> int:
    """Return the length of the first part, or 0 if this is not the line before it."""
    words = header.split()
    return int(words[4]) if len(words) == 7 and words[4].isdigit() else 0


def _encode(view: View) -> bytes:
    import orjson  # a table needs none, nor does a list that is all in the cache (3 ms)

    return orjson.dumps(view)


def _is_final(view: View) -> bool:
    """Tell whether a view follows from the metadata alone, whoever holds the lock."""
    return view["state"] == "stopped" and view.get("stop_detail") != KEEPER_VANISHED
