"""Waiting for a session's metadata to catch up with its log.

A keeper commits the end of a turn first and replaces meta.json about a millisecond later. Whoever reports the
end waits for both, so that a `status` or `delete` right after it does not see a turn that still runs.
"""

from __future__ import annotations

import time

from agh.errors import MetaInvalid
from agh.home import Session
from agh.store import lock, meta

_LIMIT, _SHORTEST, _LONGEST = 1.0, 0.0002, 0.02  # seconds; a frozen keeper delays a report no longer


def await_metadata(session: Session, sequence: int) -> None:
    """Wait until the metadata covers the event with this number, while a keeper is there to write it."""
    deadline, nap = time.monotonic() + _LIMIT, _SHORTEST
    while not _covers(session, sequence) and lock.is_held(session) and time.monotonic() < deadline:
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST)


def _covers(session: Session, sequence: int) -> bool:
    """Tell whether the metadata is as new as this event. Nobody waits for metadata that cannot be read."""
    try:
        return meta.read(session).get("last_sequence", sequence) >= sequence
    except MetaInvalid:
        return True
