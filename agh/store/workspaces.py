"""workspaces.toml: directories that have a name and an id. A session in one records the workspace's id.

Registering is a convenience: every directory is a workspace, registered or not. The file is replaced
whole, by one command at a time. Removing an entry touches neither the directory nor its sessions.
"""

from __future__ import annotations

import os

from agh.core.named_tuple import NamedTuple
from agh.core.status import derive_workspace_id
from agh.core.suggest import closest
from agh.errors import ConfigInvalid, Usage, WorkspaceNameTaken, WorkspaceNotFound
from agh.home import checked_home, home_path, replace_file
from agh.store.sessions import lock_names, working_directory

FILE, PREFIX = "workspaces.toml", "ws-"


class Workspace(NamedTuple):
    """A directory; `id` and `name` are None when it is not registered."""

    path: str
    id: str | None = None
    name: str | None = None


def read_registered() -> list[Workspace]:
    """List the registered workspaces, sorted by name."""
    path = os.path.join(checked_home() or home_path(), FILE)
    try:
        with open(path, "rb") as file:
            import tomllib

            entries = tomllib.load(file).get("workspaces", [])
            workspaces = [Workspace(entry["path"], entry["id"], entry["name"]) for entry in entries]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigInvalid(path, error) from None
    except (KeyError, TypeError, AttributeError):
        raise ConfigInvalid(path, "each [[workspaces]] entry needs an id, a name and a path") from None
    if not all(isinstance(value, str) and value for workspace in workspaces for value in workspace):
        raise ConfigInvalid(path, "id, name and path in [[workspaces]] must be non-empty strings")
    return _by_name(workspaces)


def find(reference: str | None) -> Workspace:
    """Return the workspace meant by a name, an id or a path (default: the working directory).

    A registered name wins over a directory of that name; ./NAME means the directory.
    """
    workspaces = read_registered()
    if reference is not None:
        for workspace in workspaces:
            if reference in (workspace.id, workspace.name):
                return workspace
    path = os.path.realpath(working_directory() if reference is None else os.path.expanduser(reference))
    return next((workspace for workspace in workspaces if workspace.path == path), Workspace(path))


def find_existing(reference: str | None) -> Workspace:
    """Find a workspace that is registered or whose directory exists; else raise WorkspaceNotFound."""
    workspace = find(reference)
    if workspace.id is None and not os.path.isdir(workspace.path):
        raise WorkspaceNotFound("directory or workspace", repr(reference), hint=_suggest(str(reference)))
    return workspace


def add(path: str, name: str | None) -> tuple[Workspace, bool]:
    """Register a directory, or rename a registered one. Also tell whether anything changed."""
    path = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(path):
        raise WorkspaceNotFound("directory", repr(path), hint="name a directory that exists")
    with lock_names():
        workspaces = read_registered()
        old = next((workspace for workspace in workspaces if workspace.path == path), None)
        new_name = name or (old.name if old else None) or os.path.basename(path) or "root"
        _check_name(new_name)
        for workspace in workspaces:
            if new_name in (workspace.name, workspace.id) and workspace.path != path:
                raise WorkspaceNameTaken(new_name, workspace.path)
        new = Workspace(path, old.id if old else derive_workspace_id(path), new_name)
        if new != old:
            _write([*(workspace for workspace in workspaces if workspace is not old), new])
    return new, new != old


def remove(reference: str) -> Workspace:
    """Remove a workspace from the list and return it. Nothing else changes."""
    with lock_names():
        removed = find(reference)
        if removed.id is None:
            raise WorkspaceNotFound("registered workspace", repr(reference), hint=_suggest(reference))
        _write([workspace for workspace in read_registered() if workspace != removed])
    return removed


def _check_name(name: str) -> None:
    if (
        name.startswith((PREFIX, "@", "-", ".", "~"))
        or "/" in name
        or not name.isprintable()
        or len(name) > 100
    ):
        hint = f"use at most 100 printable characters, without /; do not start with {PREFIX}, @, -, . or ~"
        raise Usage(f"{name!r} is not a valid workspace name", hint=hint)


def _suggest(reference: str) -> str | None:
    close = closest(reference, [str(workspace.name) for workspace in read_registered()])
    return f"did you mean {close}?" if close else None


def _write(workspaces: list[Workspace]) -> None:
    import tomlkit

    entries = [
        {"id": workspace.id, "name": workspace.name, "path": workspace.path}
        for workspace in _by_name(workspaces)
    ]
    text = tomlkit.dumps({"workspaces": entries}) if entries else ""
    replace_file(os.path.join(home_path(), FILE), text.encode())


def _by_name(workspaces: list[Workspace]) -> list[Workspace]:
    return sorted(workspaces, key=lambda workspace: str(workspace.name))
