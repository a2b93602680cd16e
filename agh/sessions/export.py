"""A session as a file. Promises: the file appears under its name only when it is complete, private, and
never in the place of another one unless that is asked for; a live session is not disturbed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from agh.adapters import registry
from agh.core.exchange import Copy, Exporter
from agh.errors import AghError, FileTaken, FormatUnknown, OutputFailed
from agh.store.copy import copy, write_database
from agh.store.replace import sync_directory


def exporter(name: str | None, path: str | None) -> Exporter:
    """The format that is named, else that of the file's suffix, else jsonl."""
    known = registry.exporters()
    if name is None:
        suffix = os.path.splitext(path or "")[1].lower()
        return next((one for one in known.values() if suffix in one.suffixes), known["jsonl"])
    if name not in known:
        raise FormatUnknown(name, ", ".join(known))
    return known[name]


def take(directory: str, *, redact: bool) -> Copy:
    """The session as it is now; with `redact` without the secrets of this environment and of its agent."""
    made = copy(directory)
    if not redact:
        return made
    from agh.core.redact import redactor
    from agh.core.redacted import redacted

    clean = redacted(made, redactor(_environ(made)))
    return replace(clean, database=lambda path: write_database(clean, path))


def write(chosen: Exporter, made: Copy, path: str, *, force: bool) -> None:
    if not force and os.path.lexists(path):
        raise FileTaken(path)
    with _told(), _beside(path) as fresh:
        chosen.write(made, fresh)
        _sync(fresh)
        if force:
            os.replace(fresh, path)
        else:
            _link(fresh, path)
        sync_directory(os.path.dirname(os.path.abspath(path)))


@contextmanager
def temporary(chosen: Exporter, made: Copy) -> Iterator[str]:
    """The path of a private file with the export in it, for one who has no place for it."""
    import tempfile

    with _told(), tempfile.TemporaryDirectory(prefix="agh-export-") as place:
        path = os.path.join(place, "export")
        _create(path)
        chosen.write(made, path)
        yield path


def _environ(made: Copy) -> dict[str, str]:
    session = made.session
    try:
        found = registry.agent(str(session.get("agent_name")), session.get("workspace_path"))
    except AghError:
        return dict(os.environ)
    return {**os.environ, **found.env}


@contextmanager
def _beside(path: str) -> Iterator[str]:
    directory, name = os.path.split(os.path.abspath(path))
    fresh = os.path.join(directory, f".{name[:200]}.{os.getpid()}")
    _create(fresh)
    try:
        yield fresh
    finally:
        for leftover in (fresh, fresh + "-journal"):
            if os.path.lexists(leftover):
                os.unlink(leftover)


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def _link(fresh: str, path: str) -> None:
    """Give the file its name, unless someone else has taken it meanwhile."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise FileTaken(path) from None
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileTaken(path) from None
        os.rename(fresh, path)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(
            f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        ) from None
