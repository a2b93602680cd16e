"""A session in the making. Promises: it appears when it is complete, or not at all.

It is built in a directory that no command looks at, which is then renamed. What a kill left of such
directories is removed by the next `sweep`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from agh.errors import SessionExists
from agh.home import ensure_home, make_private_dir, session_path, sessions_path
from agh.store import lock, meta, writer
from agh.store.lock import Lock
from agh.store.meta import Meta, sync_directory

_HIDDEN = ".making-"


@contextmanager
def making(session_id: str) -> Iterator[Lock]:
    """The held lock of a hidden directory with an empty log. Unless it appears inside the block, it goes.

    Once it has appeared the lock is the caller's, who releases it or hands it on.
    """
    held = _begin(session_id)
    try:
        writer.create(held)
        yield held
    finally:
        if _is_hidden(held.directory):
            _remove(held)


def appear(held: Lock, made: Meta) -> None:
    """Write the metadata, and let every command see the session. SessionExists if there is one."""
    meta.write(held.directory, made)
    target = session_path(made["id"])
    try:
        os.rename(held.directory, target)
    except OSError:
        if os.path.isdir(target):
            raise SessionExists(made["id"]) from None
        raise
    held.directory = target
    sync_directory(os.path.dirname(target))


def sweep() -> None:
    """Remove what kills have left of sessions that never appeared."""
    try:
        names = os.listdir(sessions_path())
    except OSError:
        return
    for name in filter(_is_hidden, names):
        directory = os.path.join(sessions_path(), name)
        try:
            leftover = lock.take(directory)
        except OSError:
            continue  # somebody else was quicker
        if leftover is not None:
            _remove(leftover)


def _begin(session_id: str) -> Lock:
    ensure_home()
    directory = os.path.join(sessions_path(), f"{_HIDDEN}{session_id}-{os.getpid()}")
    while True:
        make_private_dir(directory)
        try:
            held = lock.take(directory)
        except FileNotFoundError:
            continue  # swept away before it was locked
        if held is not None and os.path.exists(os.path.join(directory, "lock")):
            return held
        if held is not None:
            held.release()


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(_HIDDEN)


def _remove(held: Lock) -> None:
    import shutil

    shutil.rmtree(held.directory, ignore_errors=True)
    held.release()
