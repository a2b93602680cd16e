"""Kubernetes: a pod that runs, or a new one for the session.

A session's own pod is called after the session, and Kubernetes has no two pods of one name: as long as one is
there, no second agent can start. It is deleted at the end; after a kill, by `repair` or by the next start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agh.adapters.launch import Launch
from agh.core.named_tuple import NamedTuple
from agh.errors import PlaceInvalid
from agh_places.place import Place, build_limits, check_name, select_program

_ADDRESS = re.compile(r"(?:(?P<namespace>[^/:]*)/)?(?P<run>run:)?(?P<name>.*)", re.DOTALL)
# Scheduling and pulling an image take their time. What agh waits for is `timeouts.initialize`.
RUNNING_TIMEOUT = "1h"
DELETE_TIMEOUT = "10s"


class _Target(NamedTuple):
    namespace: list[str]  # the arguments that select it
    is_image: bool  # the session has a pod of its own
    name: str  # of the pod, or of the image


def parse_kube(address: str) -> dict[str, str]:
    """Parse [namespace/]pod, or [namespace/]run:image."""
    target = _split(address)
    if target.namespace:
        check_name("namespace", target.namespace[1])
    check_name("image" if target.is_image else "pod", target.name)
    return {"target": address}


def build_kube_argv(place: Place, launch: Launch, command: Sequence[str]) -> list[str]:
    target, program = _split(place.target), select_program(place)
    if not target.is_image:
        if place.memory or place.cpus:
            raise PlaceInvalid(place.name, "memory and cpus cannot be set for a running pod")
        return [*program, "exec", "-i", *target.namespace, *place.options, target.name, "--", *command]
    name = _name_pod(launch.session_id or "probe")
    attach = ["--restart=Never", "--rm", "-i", "--quiet", f"--pod-running-timeout={RUNNING_TIMEOUT}"]
    pod = [name, *target.namespace, f"--image={target.name}", f"--labels=agh.session={launch.session_id}"]
    options = [*attach, *_override_limits(place, name), *place.options]
    return [*program, "run", *pod, *options, "--command", "--", *command]


def build_kube_end(place: Place, session_id: str) -> list[str]:
    """Return the command that deletes the session's pod, and waits until it is gone: its name is needed."""
    target = _split(place.target)
    if not target.is_image:
        return []
    how = ["--ignore-not-found", "--now", f"--timeout={DELETE_TIMEOUT}"]
    return [*select_program(place), "delete", "pod", *target.namespace, _name_pod(session_id), *how]


def build_kube_check(place: Place) -> tuple[list[str], str]:
    target, program = _split(place.target), select_program(place)
    if target.is_image:
        return [*program, "auth", "can-i", "create", "pods", *target.namespace], "yes"
    ready = ["wait", "--for=condition=Ready", *target.namespace, "--timeout=10s", f"pod/{target.name}"]
    return [*program, *ready], ""


def build_kube_limits(place: Place) -> list[str]:
    """Return the limits of a container, each as NAME=AMOUNT."""
    return [
        *([f"memory={place.memory}"] if place.memory else []),
        *([f"cpu={place.cpus:g}"] if place.cpus else []),
    ]


def _override_limits(place: Place, name: str) -> list[str]:
    """Return the arguments that limit the pod's only container, which has the pod's name."""
    limits = dict(limit.split("=", 1) for limit in build_limits(place))
    if not limits:
        return []
    if any(option.startswith("--override") for option in place.options):
        raise PlaceInvalid(
            place.name, "memory and cpus do not work with --overrides; put them into the overrides"
        )
    patch = {"spec": {"containers": [{"name": name, "resources": {"limits": limits}}]}}
    return ["--override-type=strategic", f"--overrides={json.dumps(patch)}"]


def _name_pod(session_id: str) -> str:
    return f"agh-{session_id}"


def _split(address: str) -> _Target:
    """Return the parts of an address. Images have slashes too, but namespaces have no colon."""
    parts = _ADDRESS.fullmatch(address)
    assert parts is not None, "it matches anything"
    namespace = [] if parts["namespace"] is None else ["-n", parts["namespace"]]
    return _Target(namespace, bool(parts["run"]), parts["name"])
