"""Which files of a workspace's `.agh/` are used: the copy that was stored when the user trusted them.

Promises: nothing of an untrusted workspace is used; what was trusted is used as it was then, whatever is in
the directory now. The user's own `trusted_workspaces` trusts a directory as it is, with whatever is written
there later. A link in place of `.agh` is never followed, and the home of agh is no workspace's `.agh`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agh.core.named_tuple import NamedTuple
from agh.errors import TrustRefused, WorkspaceUnreadable
from agh.home import ensure_home, home_path, make_private_dir, replace_file

FOLDER = ".agh"
INDEX, COPIES = "trusted.json", "trusted"
SKIPPED = ("council",)  # scratch pads of councils, which are no settings
MAX_FILES, MAX_BYTES = 200, 1 << 20
_NO_SETTINGS = f"it has no {FOLDER}/ with settings"
Files = dict[
    str, tuple[bytes, bool]
]  # by path below the folder: what is in the file, and whether it can be run


class Record(NamedTuple):
    """A workspace that the user trusts: the copy of its `.agh`, and the digest of what is in it."""

    path: str
    copy: str
    sha256: str
    trusted_at: str

    @property
    def folder(self) -> str:
        return os.path.join(home_path(), COPIES, os.path.basename(self.copy))


def records() -> list[Record]:
    """List the workspaces whose `.agh` the user has trusted."""
    try:
        with open(os.path.join(home_path(), INDEX), "rb") as file:
            import orjson

            entries = orjson.loads(file.read())
        return [Record(*(str(entry[key]) for key in Record._fields)) for entry in entries]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkspaceUnreadable(os.path.join(home_path(), INDEX), error) from None


def record_of(workspace: str | None) -> Record | None:
    """Return the record of a workspace; None if the user has not trusted it by command."""
    if not workspace or "\0" in workspace:
        return None
    path = os.path.realpath(workspace)
    return next((record for record in records() if record.path == path), None)


def folder_of(workspace: str | None) -> str | None:
    """Return the workspace's `.agh` if it has one that is not the home itself."""
    if not workspace:
        return None
    folder = os.path.join(workspace, FOLDER)
    if not os.path.isdir(folder) or os.path.realpath(folder) == os.path.realpath(home_path()):
        return None
    return folder


def state(workspace: str | None, *, is_listed: bool) -> str:
    """Return trusted, changed (the copy is used), untrusted, or none if there is nothing to trust."""
    folder, record = folder_of(workspace), record_of(workspace)
    if record is not None:
        return "changed" if is_changed(record, folder) else "trusted"
    if folder is None or not (os.path.islink(folder) or has_files(folder)):
        return "none"
    return "trusted" if is_listed and not os.path.islink(folder) else "untrusted"


def is_changed(record: Record, folder: str | None) -> bool:
    """Tell whether the files of a workspace differ from those that were trusted."""
    try:
        return (read_files(folder) if folder else {}) != read_files(record.folder)
    except WorkspaceUnreadable:
        return True


def has_files(folder: str) -> bool:
    """Tell whether a folder has anything in it that would be used, or that has to be looked at."""
    try:
        return any(name not in SKIPPED for name in os.listdir(folder))
    except OSError:
        return True


def read_files(folder: str) -> Files:
    """Return all files below a folder. Raise WorkspaceUnreadable for what is no file and no directory."""
    files: Files = {}
    size = 0
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            entries = sorted(os.scandir(os.path.join(folder, below)), key=lambda entry: entry.name)
        except OSError as error:
            raise WorkspaceUnreadable(os.path.join(folder, below), error.strerror) from None
        for entry in entries:
            name = os.path.join(below, entry.name)
            if not below and entry.name in SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(name)
                continue
            files[name] = _read(entry.path)
            size += len(files[name][0])
            if len(files) > MAX_FILES or size > MAX_BYTES:
                why = f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB"
                raise WorkspaceUnreadable(folder, why, hint="move what is not a setting out of it")
    return dict(sorted(files.items()))


def use_copy(settings: dict[str, Any], workspace: str | None, folder: str) -> dict[str, Any]:
    """Return the settings in a folder; a program that they name below `.agh/` is the one that was trusted."""
    if folder == folder_of(workspace):
        return settings
    programs = {key: settings[key] for key in ("hooks", "mcp_servers", "places") if key in settings}
    return settings | {key: rebase(value, workspace, folder) for key, value in programs.items()}


def rebase(value: Any, workspace: str | None, folder: str) -> Any:
    """Return a setting in which what is named below `.agh/` is taken from the copy that was trusted."""
    if isinstance(value, str):
        start = re.escape(os.path.join(os.path.realpath(str(workspace)), FOLDER) + "/")
        return re.sub(rf"(?<![\w./-])(?:{start}|(?:\./)?\.agh/)", lambda _: folder + "/", value)
    if isinstance(value, list):
        return [rebase(entry, workspace, folder) for entry in value]
    if isinstance(value, dict):
        return {key: rebase(entry, workspace, folder) for key, entry in value.items()}
    return value


class Proposal(NamedTuple):
    """What would be trusted, and what is trusted now."""

    path: str
    files: Files
    trusted: Files

    @property
    def sha256(self) -> str:
        """Return the digest of all files with their names."""
        from hashlib import sha256

        import orjson

        digest = sha256()
        for name, (data, can_run) in self.files.items():
            digest.update(orjson.dumps([name, len(data), can_run]) + data)
        return digest.hexdigest()

    def show(self) -> list[str]:
        """Return all files, and the whole text of those that are new or have changed."""
        from agh.core.diff import unified

        lines: list[str] = []
        for name in sorted(self.files.keys() | self.trusted.keys()):
            before, after = self.trusted.get(name), self.files.get(name)
            if before == after:
                lines.append(f"{name}: unchanged since you trusted it")
                continue
            old, new = (entry[0].decode(errors="replace") if entry else "" for entry in (before, after))
            change = "is gone" if after is None else "is new" if before is None else "has changed"
            lines.append(f"{name} {change}" + (", executable" if after is not None and after[1] else ""))
            diff = unified(old, new, name)
            lines += [f"    {line}" for line in (diff[2:] if diff[:1] == [f"--- {name}"] else diff)]
        return lines


def propose(workspace: str) -> Proposal:
    """Read what a workspace has now, and what is trusted of it. Raise TrustRefused if that is nothing."""
    folder, record = folder_of(workspace), record_of(workspace)
    if folder is not None and os.path.islink(folder):
        raise TrustRefused(
            workspace,
            f"its {FOLDER} is a symbolic link",
            hint="replace the link with a real directory",
        )
    files = read_files(folder) if folder else {}
    trusted = read_files(record.folder) if record else {}
    if not files and not trusted:
        raise TrustRefused(workspace, _NO_SETTINGS)
    return Proposal(os.path.realpath(workspace), files, trusted)


def store(proposal: Proposal) -> Record:
    """Store a copy of what was proposed; it is used from the next start of a session on."""
    if not proposal.files:
        raise TrustRefused(proposal.path, _NO_SETTINGS)
    from agh.core.events import timestamp

    ensure_home()
    copy = os.urandom(8).hex()
    record = Record(proposal.path, copy, proposal.sha256, timestamp())
    for name, (data, can_run) in proposal.files.items():
        path = os.path.join(record.folder, name)
        make_private_dir(os.path.dirname(path))
        replace_file(path, data, mode=0o700 if can_run else 0o600)
    with _locked():
        others = [entry for entry in records() if entry.path != proposal.path]
        gone = [entry for entry in records() if entry.path == proposal.path]
        _write([*others, record])
    for entry in gone:
        import shutil

        shutil.rmtree(entry.folder, ignore_errors=True)
    return record


def forget(workspace: str) -> Record | None:
    """Stop trusting a workspace; return its record if it had one."""
    path = os.path.realpath(workspace)
    with _locked():
        record = record_of(path)
        if record is not None:
            _write([entry for entry in records() if entry.path != path])
            import shutil

            shutil.rmtree(record.folder, ignore_errors=True)
    return record


@contextmanager
def _locked() -> Iterator[None]:
    """Keep other commands from changing the records inside the block."""
    fd = os.open(home_path(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _write(records: list[Record]) -> None:
    import orjson

    entries = [record._asdict() for record in sorted(records)]
    replace_file(os.path.join(home_path(), INDEX), orjson.dumps(entries, option=orjson.OPT_INDENT_2))


def _read(path: str) -> tuple[bytes, bool]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                raise WorkspaceUnreadable(path, "it is not a regular file")
            return file.read(MAX_BYTES + 1), bool(mode & 0o100)
    except OSError as error:
        raise WorkspaceUnreadable(path, error.strerror) from None
