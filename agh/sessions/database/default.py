"""The database that is used if none is named. It is in the cache directory, and always up to date.

Like everything there it is derived: one that is damaged, or of another version, is built again.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from agh.errors import DatabaseDamaged, DatabaseForeign, DatabaseVersion
from agh.sessions.database.file import check, default_path, ensure_default_directory, open_to_read
from agh.sessions.database.sources import changes
from agh.store.search.index import Progress, silent


def update_default(progress: Progress = silent) -> tuple[str, list[str]]:
    """Bring the default database up to date; return its path and the errors of damaged sessions."""
    path = default_path()
    if _is_current(path):
        return path, []
    from agh.sessions.database.build import build

    ensure_default_directory()
    try:
        return path, build(path, progress=progress).damaged
    except DatabaseDamaged:
        _delete(path)
        return path, build(path, progress=progress).damaged


def _is_current(path: str) -> bool:
    try:
        if not check(path):
            return False
        with closing(open_to_read(path)) as connection:
            stale, deleted, _ = changes(connection)
        return not stale and not deleted
    except sqlite3.OperationalError:
        return False
    except (DatabaseForeign, DatabaseVersion, DatabaseDamaged, sqlite3.DatabaseError):
        _delete(path)
        return False


def _delete(path: str) -> None:
    for name in (path, path + "-journal"):
        if os.path.lexists(name):
            os.unlink(name)
