"""workspaces.toml: directories that have a name and an id. A session in one carries the workspace's id.

Registering is a convenience: every directory is a workspace, registered or not. The file is written
whole, by one command at a time; removing an entry touches neither the directory nor its sessions.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from agh.core.suggest import closest
from agh.errors import ConfigInvalid, Usage, WorkspaceNameTaken, WorkspaceNotFound
from agh.home import base36, checked_home, home_path
from agh.store.replace import replace_file
from agh.store.sessions import here, naming

FILE, PREFIX = "workspaces.toml", "ws-"


class Workspace(NamedTuple):
    """A directory; `id` and `name` are None when it is not registered."""

    path: str
    id: str | None = None
    name: str | None = None


def registered() -> list[Workspace]:
    """All that are registered, by name."""
    path = os.path.join(checked_home() or home_path(), FILE)
    try:
        with open(path, "rb") as file:
            import tomllib

            entries = tomllib.load(file).get("workspaces", [])
            found = [Workspace(one["path"], one["id"], one["name"]) for one in entries]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigInvalid(path, error) from None
    except (KeyError, TypeError, AttributeError):
        raise ConfigInvalid(path, "each of [[workspaces]] has an id, a name and a path") from None
    if not all(isinstance(text, str) and text for one in found for text in one):
        raise ConfigInvalid(path, "an id, a name and a path are texts")
    return sorted(found, key=lambda one: str(one.name))


def find(reference: str | None) -> Workspace:
    """The workspace meant by a name, an id or a path (default: the working directory).

    A registered name wins over a directory of that name; ./NAME means the directory.
    """
    known = registered()
    if reference is not None:
        for one in known:
            if reference in (one.id, one.name):
                return one
    path = os.path.realpath(here() if reference is None else os.path.expanduser(reference))
    return next((one for one in known if one.path == path), Workspace(path))


def existing(reference: str | None) -> Workspace:
    """The same, if its directory is there or it is registered; else an error that names what is close."""
    found = find(reference)
    if found.id is None and not os.path.isdir(found.path):
        raise WorkspaceNotFound(repr(reference), hint=_suggest(str(reference)))
    return found


def add(path: str, name: str | None) -> tuple[Workspace, bool]:
    """Register a directory, or give a registered one another name. Whether anything is new."""
    path = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(path):
        raise WorkspaceNotFound(repr(path), hint="name a directory that is there")
    with naming():
        known = registered()
        before = next((one for one in known if one.path == path), None)
        chosen = name or (before.name if before else None) or os.path.basename(path) or "root"
        _check(chosen)
        for one in known:
            if chosen in (one.name, one.id) and one.path != path:
                raise WorkspaceNameTaken(chosen, one.path)
        made = Workspace(path, before.id if before else PREFIX + base36(os.urandom(8)), chosen)
        if made != before:
            _write([*(one for one in known if one is not before), made])
    return made, made != before


def remove(reference: str) -> Workspace:
    """Take a workspace off the list; nothing else changes."""
    with naming():
        known = registered()
        found = find(reference)
        if found.id is None:
            raise WorkspaceNotFound(repr(reference), hint=_suggest(reference))
        _write([one for one in known if one != found])
    return found


def _check(name: str) -> None:
    if (
        name.startswith((PREFIX, "@", "-", ".", "~"))
        or "/" in name
        or not name.isprintable()
        or len(name) > 100
    ):
        raise Usage(f"{name!r} cannot be a workspace's name", hint="use letters, digits, dots and dashes")


def _suggest(reference: str) -> str:
    close = closest(reference, [str(one.name) for one in registered()])
    return f"did you mean {close}?" if close else "agh workspace list"


def _write(workspaces: list[Workspace]) -> None:
    import tomlkit

    entries = [
        {"id": workspace.id, "name": workspace.name, "path": workspace.path}
        for workspace in sorted(workspaces, key=lambda workspace: str(workspace.name))
    ]
    text = tomlkit.dumps({"workspaces": entries}) if entries else ""
    replace_file(os.path.join(home_path(), FILE), text.encode())
