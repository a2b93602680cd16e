"""Why a place cannot be reached, from what its program printed, and what to do about it.

Promises: names the cause and the next step as far as the program's words show it, and always quotes them.
Never runs anything.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from agh.core.named_tuple import NamedTuple
from agh.errors import PlaceGone
from agh_places.place import Place, select_program

_CONTAINERS = ("docker", "podman")


class Cause(NamedTuple):
    """A cause that a program's output shows. `{program}`, `{target}` and `{image}` are filled in."""

    kinds: tuple[str, ...]
    pattern: str
    sentence: str
    hint: str


_CAUSES = (
    Cause(
        ("ssh",),
        "Could not resolve hostname",
        "no such host",
        "check the name, or add the host to ~/.ssh/config",
    ),
    Cause(
        ("ssh",),
        "HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed",
        "ask its administrator whether that is expected; if so: ssh-keygen -R HOST",
    ),
    Cause(
        ("ssh",),
        "Host key verification failed|No .* host key is known",
        "its host key is not known here",
        "connect once and accept it: {program} {target} true",
    ),
    Cause(
        ("ssh",),
        r"Permission denied \(",
        "it accepts none of your keys",
        'ssh-copy-id {target}, or set options = ["-i", "FILE"] in [places.NAME] of config.toml',
    ),
    Cause(
        ("ssh",), "Connection refused", "no ssh server listens there", "start sshd there, or check the port"
    ),
    Cause(
        ("ssh",),
        "timed out|No route to host|Network is unreachable",
        "the host does not answer",
        "check the network: {program} -v {target} true",
    ),
    Cause(
        _CONTAINERS,
        "(?i)no such image|image not known|unable to find image|does not resolve to an image",
        "no such image",
        "{program} pull {image}",
    ),
    Cause(
        _CONTAINERS,
        "(?i)no such container|no container with name",
        "no such container",
        "{program} ps --all",
    ),
    Cause(
        _CONTAINERS, r"\Afalse\Z|(?i:is not running)", "the container is stopped", "{program} start {target}"
    ),
    Cause(
        _CONTAINERS,
        "(?i)cannot connect to the docker daemon|permission denied while trying to connect",
        "the container engine is not running, or you are not allowed to use it",
        "{program} info",
    ),
    Cause(
        (*_CONTAINERS, "kube"),
        r'"?sh"?: executable file not found|exec sh failed',
        "it has no shell",
        "use an image with a POSIX shell, such as busybox",
    ),
    Cause(("kube",), r"\(NotFound\)|pods .* not found", "no such pod", "{program} get pods --all-namespaces"),
    Cause(
        ("kube",),
        "timed out waiting for the condition",
        "the pod is not ready",
        "{program} get pods --all-namespaces",
    ),
    Cause(
        ("kube",),
        "(?i)forbidden",
        "you are not allowed to use the pod",
        "{program} auth can-i create pods/exec",
    ),
    Cause(
        ("kube",),
        "(?i)connection to the server|unable to connect|no configuration has been provided",
        "the cluster does not answer",
        "{program} cluster-info",
    ),
    Cause(("slurm",), r"(?i)\A\Z|invalid partition", "no such partition", "sinfo"),
    Cause(
        ("slurm",),
        "(?i)unable to contact slurm controller",
        "Slurm's controller does not answer",
        "scontrol ping",
    ),
    Cause(
        ("slurm",),
        "(?i)could not establish a configuration source",
        "Slurm is not set up here",
        "set SLURM_CONF, or use a login node",
    ),
    Cause(
        ("systemd",),
        "(?i)failed to (connect to|create) .*bus",
        "your systemd user manager is not running",
        'loginctl enable-linger "$USER"',
    ),
)


def explain_check(place: Place, output: str, command: Sequence[str]) -> PlaceGone:
    """Return the error for a place that was not reached, from the output of the command that tried."""
    text = output.strip()
    last = text.splitlines()[-1][:300] if text else f"{command[0]} failed and printed nothing"
    error = PlaceGone(place.name, last, hint=f"try it yourself: {shlex.join(command)}")
    return add_cause(error, place, text)


def add_cause(error: PlaceGone, place: Place, output: str) -> PlaceGone:
    """Return the error with the cause that the output shows and the next step; as it is if it shows none."""
    cause = next((c for c in _CAUSES if place.kind.name in c.kinds and re.search(c.pattern, output)), None)
    if cause is None:
        return error
    words = {
        "program": shlex.join(select_program(place)),
        "target": place.target,
        "image": place.target.removeprefix("run:"),
    }
    last = str(error.args[1])
    quote = f" ({last})" if " " in last else ""
    return PlaceGone(place.name, cause.sentence + quote, hint=cause.hint.format_map(words))


def explain_missing(place: Place, program: str, reason: str | None) -> PlaceGone:
    """Return the error for a program that cannot be started on this machine."""
    name = os.path.basename(program)
    hint = f'install {name} on this machine, or set command = ["PATH"] in [places.NAME] of config.toml'
    return PlaceGone(place.name, f"{program} cannot be run here: {reason}", hint=hint)
