"""Exporting a session to a file.

Promises: the file is private and appears under its name only when it is complete; it replaces another file
only if that is asked for; a live session is not disturbed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agh.adapters import registry
from agh.core.exchange import Exporter, Snapshot
from agh.errors import AghError, FileTaken, FormatUnknown, OutputFailed
from agh.home import Session, sync_directory
from agh.sessions.new_file import create_private_file, give_name, sync_file
from agh.store.copy import copy, write_database


def exporter(name: str | None, path: str | None) -> Exporter:
    """Return the format that is named, else that of the file's suffix, else jsonl."""
    formats = registry.exporters()
    if name is None:
        suffix = os.path.splitext(path or "")[1].lower()
        return next(
            (format for format in formats.values() if suffix in format.suffixes),
            formats["jsonl"],
        )
    if name not in formats:
        raise FormatUnknown(name, ", ".join(formats))
    return formats[name]


def take(session: Session, *, redact: bool) -> Snapshot:
    """Copy the session as it is now; `redact` hides the secrets of this environment and of its agent."""
    snapshot = copy(session)
    if not redact:
        return snapshot
    from agh.adapters.redactions import redactor_for
    from agh.core.redaction.redacted import redact_copy

    hide = redactor_for(environ_of(snapshot.session), snapshot.session.get("workspace_path"))
    clean = redact_copy(snapshot, hide)
    return replace(clean, database=lambda path: write_database(clean, path))


def write(exporter: Exporter, session: Snapshot, path: str, *, force: bool) -> None:
    if not force and os.path.lexists(path):
        raise FileTaken(path)
    with _reported(), _beside(path) as fresh:
        exporter.write(session, fresh)
        sync_file(fresh)
        if force:
            os.replace(fresh, path)
        else:
            give_name(fresh, path)
        sync_directory(os.path.dirname(os.path.abspath(path)))


@contextmanager
def temporary(exporter: Exporter, session: Snapshot) -> Iterator[str]:
    """Give the path of a private temporary file with the export in it."""
    import tempfile

    with _reported(), tempfile.TemporaryDirectory(prefix="agh-export-") as folder:
        path = os.path.join(folder, "export")
        create_private_file(path)
        exporter.write(session, path)
        yield path


def environ_of(session: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables whose values may be secrets: this environment's, and those of its agent."""
    try:
        agent = registry.agent(str(session.get("agent_name")), session.get("workspace_path"))
    except AghError:
        return dict(os.environ)
    return {**os.environ, **agent.env}


@contextmanager
def _beside(path: str) -> Iterator[str]:
    directory, name = os.path.split(os.path.abspath(path))
    fresh = os.path.join(directory, f".{name[:200]}.{os.getpid()}")
    create_private_file(fresh)
    try:
        yield fresh
    finally:
        for leftover in (fresh, fresh + "-journal"):
            if os.path.lexists(leftover):
                os.unlink(leftover)


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if not error.filename:
            raise OutputFailed(error.strerror) from None
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = None if is_full else "check the permissions there, or name another file"
        raise OutputFailed(f"{error.filename}: {error.strerror}", hint=hint) from None
