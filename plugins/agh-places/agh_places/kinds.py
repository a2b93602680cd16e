"""The kinds of places: for each, the argv that carries standard streams there, and nothing that runs."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator, Sequence

from agh import config
from agh.adapters.launch import Launch
from agh.errors import PlaceInvalid
from agh.home import home_path
from agh_places.place import Kind, Place, limits

# What a login gives: a cluster's nodes share homes and software, and srun is told to bring nothing.
OF_A_LOGIN = ("HOME", "PATH", "LD_LIBRARY_PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")


def program(place: Place) -> list[str]:
    return [*(place.command or place.kind.command)]


def plain(what: str, name: str) -> str:
    """A name that no program takes for an option or for two words."""
    if not name or name.startswith("-") or any(one.isspace() or one == "\0" for one in name):
        raise ValueError(f"{name!r} is no {what}" if name else f"it needs a {what}")
    return name


# ssh


def read_ssh(text: str) -> dict[str, str]:
    """[user@]host[:dir]; an IPv6 address stands in brackets."""
    user, at, rest = text.rpartition("@") if "@" in text.partition(":")[0] else ("", "", text)
    if rest.startswith("["):
        host, _, rest = rest[1:].partition("]")
        directory = rest.removeprefix(":")
    else:
        host, _, directory = rest.partition(":")
    if at:
        plain("user", user)
    plain("host", host)
    return {"target": f"{user}{at}{host}", **({"dir": directory} if directory else {})}


# The user's own options come first: of two with the same name ssh takes the first. A session's ssh does not
# become the master of others: they would end with it.
_SSH = (
    "BatchMode=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ConnectTimeout=20",
    "ControlMaster=no",
)


def ssh(place: Place, command: Sequence[str]) -> list[str]:
    ours = [word for option in _SSH for word in ("-o", option)]
    return [*program(place), "-T", *place.options, *ours, "--", place.target, shlex.join(command)]


# docker and podman


def read_container(text: str) -> dict[str, str]:
    """CONTAINER, which runs, or run:IMAGE."""
    plain("image" if text.startswith("run:") else "container", text.removeprefix("run:"))
    return {"target": text}


def container(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    image = _image(place)
    if image is None:
        if place.memory or place.cpus:
            raise PlaceInvalid(place.name, "a running container has its limits already")
        return [*program(place), "exec", "-i", *place.options, place.target, *command]
    mounts = _mounts(place, launch)
    named = ["--name", _name(launch.session_id or "probe"), "--label", f"agh.session={launch.session_id}"]
    entry = ["--entrypoint", command[0], image, *command[1:]]
    return [*program(place), "run", "--rm", "-i", *named, *mounts, *limits(place), *place.options, *entry]


def end_container(place: Place, session_id: str) -> list[str]:
    """The engine knows a session's container by its name, so there is never a second one."""
    return [*program(place), "rm", "-f", _name(session_id)] if _image(place) else []


def check_container(place: Place) -> tuple[list[str], str]:
    image = _image(place)
    if image is None:
        return [*program(place), "container", "inspect", "-f", "{{.State.Running}}", place.target], "true"
    return [*program(place), "image", "inspect", "-f", "{{.Id}}", image], ""


def _image(place: Place) -> str | None:
    return place.target.removeprefix("run:") if place.target.startswith("run:") else None


def _name(session_id: str) -> str:
    return f"agh-{session_id}"


def _mounts(place: Place, launch: Launch) -> list[str]:
    """Return the arguments that mount the workspace, under its own path or the place's, and what it needs,
    such as a worktree's repository; read-only, on top of these, what agh takes orders from."""
    pairs = [(launch.workspace, launch.cwd), *((path, path) for path in launch.directories)]
    protected = [*_obeyed(launch.workspace, launch.cwd)]
    for path in (word for pair in [*pairs, *protected] for word in pair):
        if "," in path or '"' in path:
            raise PlaceInvalid(place.name, f"{path} cannot be mounted: it has a comma or a quote in its name")
    words = [word for here, there in pairs for word in ("--mount", f"type=bind,source={here},target={there}")]
    for here, there in protected:
        if here:
            words += ["--mount", f"type=bind,source={here},target={there},readonly"]
        else:
            words += ["--tmpfs", f"{there}:ro"]  # podman knows no readonly for a --mount of this type
    return words


def _obeyed(workspace: str, inside: str) -> Iterator[tuple[str, str]]:
    """Find the directories in a workspace that agh takes orders from: its `.agh`, and a home of agh in it.

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


def container_limits(place: Place) -> list[str]:
    return [
        *(["--memory", place.memory] if place.memory else []),
        *(["--cpus", f"{place.cpus:g}"] if place.cpus else []),
    ]


# kubernetes


def read_kube(text: str) -> dict[str, str]:
    """[namespace/]pod"""
    namespace, slash, pod = text.rpartition("/")
    if slash:
        plain("namespace", namespace)
    plain("pod", pod)
    return {"target": text}


def kube(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    namespace, pod = _pod(place)
    return [*program(place), "exec", "-i", *namespace, *place.options, pod, "--", *command]


def check_kube(place: Place) -> tuple[list[str], str]:
    namespace, pod = _pod(place)
    return [*program(place), "wait", "--for=condition=Ready", *namespace, "--timeout=10s", f"pod/{pod}"], ""


def _pod(place: Place) -> tuple[list[str], str]:
    namespace, _, pod = place.target.rpartition("/")
    return (["-n", namespace] if namespace else []), pod


# slurm


def read_slurm(text: str) -> dict[str, str]:
    """[partition]"""
    return {"target": plain("partition", text) if text else ""}


def slurm(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    """srun would take the whole environment to the node; what may cross comes down the wire."""
    partition = [f"--partition={place.target}"] if place.target else []
    job = [f"--job-name=agh-{launch.session_id or 'probe'}", "--ntasks=1", "--export=NONE", "--chdir=/"]
    shell = ["/bin/sh", *command[1:]]  # there is no PATH yet
    return [*program(place), "--quiet", *job, *partition, *limits(place), *place.options, *shell]


def end_slurm(place: Place, session_id: str) -> list[str]:
    user = pwd.getpwuid(os.getuid()).pw_name
    return [_beside(place, "scancel"), "--quiet", f"--user={user}", f"--name=agh-{session_id}"]


def check_slurm(place: Place) -> tuple[list[str], str]:
    partition = [f"--partition={place.target}"] if place.target else []
    return [_beside(place, "sinfo"), "--noheader", "--format=%P %a", *partition], " up"


def _beside(place: Place, name: str) -> str:
    """Another program of the same installation."""
    return os.path.join(os.path.dirname(program(place)[0]), name)


def slurm_limits(place: Place) -> list[str]:
    return [
        *([f"--mem={place.memory}"] if place.memory else []),
        *([f"--cpus-per-task={place.cpus:g}"] if place.cpus else []),
    ]


# systemd


def read_systemd(text: str) -> dict[str, str]:
    if text:
        raise ValueError("it has no address")
    return {}


def systemd(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    """A scope runs as our own child: the leash ends it, and no far side is needed."""
    about = [f"--description=agh {launch.session_id}"]
    return [*_scope(place), *about, *limits(place), *place.options, "--", *command]


def _scope(place: Place) -> list[str]:
    return [*program(place), "--user", "--scope", "--quiet", "--collect"]


def systemd_limits(place: Place) -> list[str]:
    return [
        *(["-p", f"MemoryMax={place.memory}"] if place.memory else []),
        *(["-p", f"CPUQuota={place.cpus * 100:g}%"] if place.cpus else []),
    ]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "ssh",
            ("ssh",),
            "ssh:[USER@]HOST[:DIR]",
            read_ssh,
            wire=lambda place, launch, command: ssh(place, command),
            check=lambda place: (ssh(place, ["true"]), ""),
        ),
        *(
            Kind(
                engine,
                (engine,),
                f"{engine}:CONTAINER or {engine}:run:IMAGE",
                read_container,
                wire=container,
                check=check_container,
                end=end_container,
                limits=container_limits,
            )
            for engine in ("docker", "podman")
        ),
        Kind("kube", ("kubectl",), "kube:[NAMESPACE/]POD", read_kube, wire=kube, check=check_kube),
        Kind(
            "slurm",
            ("srun",),
            "slurm[:PARTITION]",
            read_slurm,
            wire=slurm,
            check=check_slurm,
            end=end_slurm,
            limits=slurm_limits,
            crosses=OF_A_LOGIN,
            # An allocation outlives its srun. By its name too: one that srun only joined is not ours to end.
            farewell='scancel --quiet --name="agh-$AGH_SESSION_ID" "$SLURM_JOB_ID"',
        ),
        Kind(
            "systemd",
            ("systemd-run",),
            "systemd",
            read_systemd,
            wire=systemd,
            check=lambda place: ([*_scope(place), "true"], ""),
            limits=systemd_limits,
            gone="Failed to ",
        ),
    )
}
