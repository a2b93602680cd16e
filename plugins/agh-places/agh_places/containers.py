"""Docker and podman: a container that runs, or a new one for the session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from agh import config
from agh.adapters.launch import Launch
from agh.errors import PlaceInvalid
from agh.home import home_path
from agh_places.place import Place, build_limits, check_name, select_program


def parse_container(address: str) -> dict[str, str]:
    """Parse CONTAINER, which must be running, or run:IMAGE."""
    check_name("image" if address.startswith("run:") else "container", address.removeprefix("run:"))
    return {"target": address}


def build_container_argv(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    image = _image_of(place)
    if image is None:
        if place.memory or place.cpus:
            raise PlaceInvalid(place.name, "a running container already has its limits")
        return [*select_program(place), "exec", "-i", *place.options, place.target, *command]
    name = _name_container(launch.session_id or "probe")
    identity = ["--name", name, "--label", f"agh.session={launch.session_id}"]
    mounts = _list_mounts(place, launch)
    entry = ["--entrypoint", command[0], image, *command[1:]]
    options = [*identity, *mounts, *build_limits(place), *place.options]
    return [*select_program(place), "run", "--rm", "-i", *options, *entry]


def build_container_end(place: Place, session_id: str) -> list[str]:
    """Return the command that deletes the session's container. Its name is unique, so there is only one."""
    return [*select_program(place), "rm", "-f", _name_container(session_id)] if _image_of(place) else []


def build_container_check(place: Place) -> tuple[list[str], str]:
    image = _image_of(place)
    if image is None:
        return [
            *select_program(place),
            "container",
            "inspect",
            "-f",
            "{{.State.Running}}",
            place.target,
        ], "true"
    return [*select_program(place), "image", "inspect", "-f", "{{.Id}}", image], ""


def _image_of(place: Place) -> str | None:
    return place.target.removeprefix("run:") if place.target.startswith("run:") else None


def _name_container(session_id: str) -> str:
    return f"agh-{session_id}"


def _list_mounts(place: Place, launch: Launch) -> list[str]:
    """Return the arguments that mount the workspace and what it needs, such as a worktree's repository.

    On top of these, read-only, come the directories whose settings agh obeys.
    """
    pairs = [(launch.workspace, launch.cwd), *((path, path) for path in launch.directories)]
    protected = [*_find_protected(launch.workspace, launch.cwd)]
    if not place.writable_git:
        protected += [entry for here, there in pairs for entry in _find_git_settings(here, there)]
    for path in (path for pair in [*pairs, *protected] for path in pair):
        if "," in path or '"' in path:
            raise PlaceInvalid(place.name, f"{path} cannot be mounted: it has a comma or a quote in its name")
    words = [word for here, there in pairs for word in ("--mount", f"type=bind,source={here},target={there}")]
    for here, there in protected:
        if here:
            words += ["--mount", f"type=bind,source={here},target={there},readonly"]
        else:
            words += ["--tmpfs", f"{there}:ro"]  # podman knows no readonly for a --mount of this type
    return words


def _find_protected(workspace: str, inside: str) -> Iterator[tuple[str, str]]:
    """Yield the directories in a workspace whose settings agh obeys: its `.agh`, and a home of agh in it.

    Each comes with its path in the container. A trusted workspace without an `.agh` gets an empty one there.
    """
    settings, home = os.path.join(workspace, config.WORKSPACE_FOLDER), os.path.realpath(home_path())
    if os.path.isdir(settings):
        yield settings, os.path.join(inside, config.WORKSPACE_FOLDER)
    elif config.is_trusted(workspace):
        yield "", os.path.join(inside, config.WORKSPACE_FOLDER)
    below = os.path.relpath(home, os.path.realpath(workspace))
    if not below.startswith("..") and home != os.path.realpath(settings) and os.path.isdir(home):
        yield home, os.path.join(inside, below)


def _find_git_settings(folder: str, inside: str) -> Iterator[tuple[str, str]]:
    """Yield what makes git run programs on this machine: the hooks and the configuration of a repository."""
    below = ".git" if os.path.isdir(os.path.join(folder, ".git")) else ""
    if not os.path.isfile(os.path.join(folder, below, "HEAD")):
        return
    for name in ("hooks", "config"):
        path, target = os.path.join(folder, below, name), os.path.join(inside, below, name)
        if os.path.exists(path):
            yield path, target
        elif name == "hooks":
            yield "", target


def build_container_limits(place: Place) -> list[str]:
    return [
        *(["--memory", place.memory] if place.memory else []),
        *(["--cpus", f"{place.cpus:g}"] if place.cpus else []),
    ]
