"""What the commands of `agh db` share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from agh.console.output import remark
from agh.console.progress import progress
from agh.errors import DatabaseMissing, DataDamaged
from agh.sessions.database.default import update_default
from agh.sessions.database.file import check


def progress_bar(session_ids: Iterable[str], total: int) -> Iterator[str]:
    return progress(session_ids, "reading sessions", total)


def find_database(file: str | None) -> tuple[str, list[str]]:
    """Return the path of the named database, or of the default one after updating it, and its damage."""
    if file is None:
        return update_default(progress_bar)
    if not check(file):
        raise DatabaseMissing(file)
    return file, []


def report_damage(errors: list[str]) -> None:
    """Name the sessions that could not be read, and exit with the number for that if there are any."""
    for error in errors:
        remark(f"left out: {error}")
    if errors:
        raise click.exceptions.Exit(DataDamaged.exit)
