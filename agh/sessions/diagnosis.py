"""Why a keeper ended: for want of room, or because its log could not be written.

It is read from the disk and from keeper.log, which may be on the very disk that is full.
"""

from __future__ import annotations

import os

from agh.errors import AghError, MetaInvalid
from agh.store import meta
from agh.store.room import is_full, store_failed

TAIL = 4000


def explain_end(directory: str, otherwise: AghError) -> AghError:
    """Return the failure that ended the session's keeper, or `otherwise` if nothing is known of one."""
    try:
        if is_full(directory):
            return store_failed(directory, "")
        started = str((meta.read(directory).get("keeper") or {}).get("started_at") or "~")
    except (OSError, MetaInvalid):
        return otherwise
    moment, _, text = last_line(directory).partition(" ")
    if moment >= started and text.startswith("store_failed: "):
        return store_failed(directory, text.rpartition("cannot be written: ")[2])
    return otherwise


def last_line(directory: str) -> str:
    """Return the last line of keeper.log; empty if there is none."""
    try:
        with open(os.path.join(directory, "keeper.log"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
