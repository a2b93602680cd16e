"""Trusting a workspace's `.agh/`: what is in it, how it differs from what was trusted, and storing a copy.

Promises: what is stored is what was shown, byte for byte.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

import orjson

from agh import trust
from agh.core.events import timestamp
from agh.errors import TrustRefused
from agh.home import ensure_home, home_path, make_private_dir, replace_file
from agh.store.sessions import lock_names
from agh.trust import Files, Record


@dataclass(frozen=True)
class Proposal:
    """What would be trusted, and what is trusted now."""

    path: str
    files: Files
    trusted: Files

    @property
    def sha256(self) -> str:
        """Return the digest of all files with their names."""
        from hashlib import sha256

        digest = sha256()
        for name, (data, can_run) in self.files.items():
            digest.update(orjson.dumps([name, len(data), can_run]) + data)
        return digest.hexdigest()

    def show(self) -> list[str]:
        """Return all files, and the whole text of those that are new or have changed."""
        from difflib import unified_diff

        lines: list[str] = []
        for name in sorted(self.files.keys() | self.trusted.keys()):
            before, after = self.trusted.get(name), self.files.get(name)
            if before == after:
                lines.append(f"{name}: as it was trusted")
                continue
            old, new = (
                (entry[0].decode(errors="replace") if entry else "").splitlines() for entry in (before, after)
            )
            change = "is gone" if after is None else "is new" if before is None else "has changed"
            lines.append(f"{name} {change}" + (", can be run" if after is not None and after[1] else ""))
            lines += [f"    {line}" for line in unified_diff(old, new, lineterm="", n=2)][2:]
        return lines


def propose(workspace: str) -> Proposal:
    """Read what a workspace has now, and what is trusted of it."""
    folder, record = trust.folder_of(workspace), trust.record_of(workspace)
    if folder is not None and os.path.islink(folder):
        raise TrustRefused(workspace, f"its {trust.FOLDER} is a link")
    files = trust.read_files(folder) if folder else {}
    trusted = trust.read_files(record.folder) if record else {}
    return Proposal(os.path.realpath(workspace), files, trusted)


def store(proposal: Proposal) -> Record:
    """Store a copy of what was proposed; it is used from the next start of a session on."""
    if not proposal.files:
        raise TrustRefused(proposal.path, f"it has no {trust.FOLDER}/ with settings")
    ensure_home()
    copy = os.urandom(8).hex()
    record = Record(proposal.path, copy, proposal.sha256, timestamp())
    for name, (data, can_run) in proposal.files.items():
        path = os.path.join(record.folder, name)
        make_private_dir(os.path.dirname(path))
        replace_file(path, data, mode=0o700 if can_run else 0o600)
    with lock_names():
        others = [entry for entry in trust.records() if entry.path != proposal.path]
        gone = [entry for entry in trust.records() if entry.path == proposal.path]
        _write([*others, record])
    for entry in gone:
        shutil.rmtree(entry.folder, ignore_errors=True)
    return record


def forget(workspace: str) -> Record | None:
    """Stop trusting a workspace; return its record if it had one."""
    path = os.path.realpath(workspace)
    with lock_names():
        record = trust.record_of(path)
        if record is not None:
            _write([entry for entry in trust.records() if entry.path != path])
            shutil.rmtree(record.folder, ignore_errors=True)
    return record


def _write(records: list[Record]) -> None:
    entries = [record._asdict() for record in sorted(records)]
    replace_file(os.path.join(home_path(), trust.INDEX), orjson.dumps(entries, option=orjson.OPT_INDENT_2))
