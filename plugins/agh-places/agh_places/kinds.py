"""The kinds of places, and for each the commands that reach it. Builds argv, never runs anything."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Sequence

from agh.adapters.launch import Launch
from agh_places.containers import (
    build_container_argv,
    build_container_check,
    build_container_end,
    build_container_limits,
    parse_container,
)
from agh_places.kube import (
    build_kube_argv,
    build_kube_check,
    build_kube_end,
    build_kube_limits,
    parse_kube,
)
from agh_places.place import Kind, Place, build_limits, check_name, select_program

# What a login sets. A cluster's nodes share homes and software, and with --export=NONE srun brings nothing.
LOGIN_VARIABLES = ("HOME", "PATH", "LD_LIBRARY_PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")


# ssh


def parse_ssh(address: str) -> dict[str, str]:
    """Parse [user@]host[:dir], with an IPv6 address in brackets."""
    user, at, rest = address.rpartition("@") if "@" in address.partition(":")[0] else ("", "", address)
    if rest.startswith("["):
        host, _, rest = rest[1:].partition("]")
        directory = rest.removeprefix(":")
    else:
        host, _, directory = rest.partition(":")
    if at:
        check_name("user", user)
    check_name("host", host)
    return {"target": f"{user}{at}{host}", **({"dir": directory} if directory else {})}


# These follow the user's own options: ssh uses the first of two with the same name. ControlMaster is off
# because connections that share a session's ssh would end with it.
_SSH_OPTIONS = (
    "BatchMode=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ConnectTimeout=20",
    "ControlMaster=no",
)


def build_ssh_argv(place: Place, command: Sequence[str]) -> list[str]:
    defaults = [word for option in _SSH_OPTIONS for word in ("-o", option)]
    return [*select_program(place), "-T", *place.options, *defaults, "--", place.target, shlex.join(command)]


# slurm


def parse_slurm(address: str) -> dict[str, str]:
    """Parse [partition]."""
    return {"target": check_name("partition", address) if address else ""}


def build_slurm_argv(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    """Return the srun command. It forwards no environment: the preamble brings what the agent may have."""
    partition = [f"--partition={place.target}"] if place.target else []
    job = [f"--job-name=agh-{launch.session_id or 'probe'}", "--ntasks=1", "--export=NONE", "--chdir=/"]
    shell = ["/bin/sh", *command[1:]]  # PATH is not set yet
    return [*select_program(place), *job, *partition, *build_limits(place), *place.options, *shell]


def build_slurm_end(place: Place, session_id: str) -> list[str]:
    user = pwd.getpwuid(os.getuid()).pw_name
    return [_find_beside(place, "scancel"), "--quiet", f"--user={user}", f"--name=agh-{session_id}"]


def build_slurm_check(place: Place) -> tuple[list[str], str]:
    partition = [f"--partition={place.target}"] if place.target else []
    return [_find_beside(place, "sinfo"), "--noheader", "--format=%P %a", *partition], " up"


def _find_beside(place: Place, name: str) -> str:
    """Return the path of another program of the same installation."""
    return os.path.join(os.path.dirname(select_program(place)[0]), name)


def build_slurm_limits(place: Place) -> list[str]:
    return [
        *([f"--mem={place.memory}"] if place.memory else []),
        *([f"--cpus-per-task={place.cpus:g}"] if place.cpus else []),
    ]


# systemd


def parse_systemd(address: str) -> dict[str, str]:
    if address:
        raise ValueError("nothing can follow systemd")
    return {}


def build_systemd_argv(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    """Return the systemd-run command. A scope is our own child: the leash ends it, without `far.sh`."""
    description = f"--description=agh {launch.session_id}"
    return [*_build_scope(place), description, *build_limits(place), *place.options, "--", *command]


def _build_scope(place: Place) -> list[str]:
    return [*select_program(place), "--user", "--scope", "--quiet", "--collect"]


def build_systemd_limits(place: Place) -> list[str]:
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
            parse_ssh,
            build_argv=lambda place, launch, command: build_ssh_argv(place, command),
            build_check=lambda place: (build_ssh_argv(place, ["true"]), ""),
            build_host_argv=build_ssh_argv,
        ),
        *(
            Kind(
                engine,
                (engine,),
                f"{engine}:CONTAINER or {engine}:run:IMAGE",
                parse_container,
                build_argv=build_container_argv,
                build_check=build_container_check,
                build_end_argv=build_container_end,
                build_limits=build_container_limits,
                is_below_leash=engine == "podman",
            )
            for engine in ("docker", "podman")
        ),
        Kind(
            "kube",
            ("kubectl",),
            "kube:[NAMESPACE/]POD or kube:[NAMESPACE/]run:IMAGE",
            parse_kube,
            build_argv=build_kube_argv,
            build_check=build_kube_check,
            build_end_argv=build_kube_end,
            build_limits=build_kube_limits,
        ),
        Kind(
            "slurm",
            ("srun",),
            "slurm[:PARTITION]",
            parse_slurm,
            build_argv=build_slurm_argv,
            build_check=build_slurm_check,
            build_end_argv=build_slurm_end,
            build_limits=build_slurm_limits,
            forwarded=LOGIN_VARIABLES,
            # An allocation outlives its srun. Match the name too: one that srun only joined is not ours.
            queued_notice="queued and waiting for resources",
            on_disconnect='scancel --quiet --name="agh-$AGH_SESSION_ID" "$SLURM_JOB_ID"',
        ),
        Kind(
            "systemd",
            ("systemd-run",),
            "systemd",
            parse_systemd,
            build_argv=build_systemd_argv,
            build_check=lambda place: ([*_build_scope(place), "true"], ""),
            build_limits=build_systemd_limits,
            unreachable="Failed to ",
        ),
    )
}
