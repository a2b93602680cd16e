"""Docker and podman: a container that runs, or a new one for the session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from agh import config, trust
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
            raise PlaceInvalid(place.name, "memory and cpus cannot be set for a running container")
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

    On top of these, read-only, come the settings in them that agh or git obeys. A directory that holds such
    settings is mounted once more on itself: it could be renamed otherwise, and another put in its place.
    """
    pairs = [(launch.workspace, launch.cwd), *((path, path) for path in launch.directories)]
    pins: dict[str, str] = {}
    protected: dict[str, str] = {}  # where it is in the container: its path here, empty if there is none
    for here, there in pairs:
        paths = [*_find_settings(here)]
        if not place.writable_git:
            paths += _find_git_settings(here)
        for path in paths:
            below = os.path.relpath(path, here)
            protected[os.path.join(there, below)] = path if os.path.exists(path) else ""
            for parent in _list_parents(below):
                pins[os.path.join(there, parent)] = os.path.join(here, parent)
    words = [*(word for here, there in pairs for word in _bind(place, here, there))]
    for there, here in pins.items():
        if there not in protected:
            words += _bind(place, here, there)
    for there, here in protected.items():
        # podman knows no readonly for a --mount of type tmpfs
        words += _bind(place, here, there, ",readonly") if here else ["--tmpfs", f"{there}:ro"]
    return words


def _bind(place: Place, here: str, there: str, option: str = "") -> list[str]:
    for path in (here, there):
        if "," in path or '"' in path:
            raise PlaceInvalid(place.name, f"{path} cannot be mounted: it has a comma or a quote in its name")
    return ["--mount", f"type=bind,source={here},target={there}{option}"]


def _list_parents(path: str) -> list[str]:
    """Return the directories above a relative path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _find_settings(folder: str) -> Iterator[str]:
    """Yield the directories in a folder whose settings agh obeys: `.agh`, also of others in it, and its home.

    A workspace that is trusted and has no `.agh` is included: an agent could make it.
    """
    real = os.path.realpath(folder)
    settings, home = os.path.join(real, config.WORKSPACE_FOLDER), os.path.realpath(home_path())
    trusted = [path for path in _list_trusted() if _is_below(path, real) and os.path.isdir(path)]
    paths = [os.path.join(path, config.WORKSPACE_FOLDER) for path in trusted]
    if os.path.isdir(settings):
        paths.append(settings)
    if _is_below(home, real) and os.path.isdir(home):
        paths.append(home)
    for path in dict.fromkeys(paths):
        yield os.path.join(folder, os.path.relpath(path, real))


def _list_trusted() -> list[str]:
    listed = config.directories(config.written(config.own_file()).get("trusted_workspaces", []))
    return [*map(os.path.realpath, (*(record.path for record in trust.records()), *listed))]


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _find_git_settings(folder: str) -> Iterator[str]:
    """Yield what makes git run programs on this machine: the hooks and the configuration of a repository.

    In a worktree it is the file that names the repository.
    """
    link = os.path.join(folder, ".git")
    if os.path.isfile(link):
        yield link
        return
    repository = link if os.path.isdir(link) else folder
    if os.path.isfile(os.path.join(repository, "HEAD")):
        yield os.path.join(repository, "hooks")
        for name in ("config", "config.worktree"):
            if os.path.exists(os.path.join(repository, name)):
                yield os.path.join(repository, name)


def build_container_limits(place: Place) -> list[str]:
    return [
        *(["--memory", place.memory] if place.memory else []),
        *(["--cpus", f"{place.cpus:g}"] if place.cpus else []),
    ]
