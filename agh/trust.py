"""Which files of a workspace's `.agh/` are used: the copy that was stored when the user trusted them.

Promises: nothing of an untrusted workspace is used; what was trusted is used as it was then, whatever is in
the directory now. The user's own `trusted_workspaces` trusts a directory as it is, with whatever is written
there later. A link in place of `.agh` is never followed, and the home of agh is no workspace's `.agh`.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, NamedTuple

from agh.errors import WorkspaceUnreadable
from agh.home import home_path

FOLDER = ".agh"
INDEX, COPIES = "trusted.json", "trusted"
SKIPPED = ("council",)  # scratch pads of councils, which are no settings
MAX_FILES, MAX_BYTES = 200, 1 << 20
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
    if not workspace:
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
                raise WorkspaceUnreadable(folder, f"it has more than {MAX_FILES} files or {MAX_BYTES} bytes")
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
