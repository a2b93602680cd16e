"""A place, as `--on` or `[places.NAME]` of the settings describes it, and taking a launch there.

Promises: the same words give the same argv; nothing is run to find out; no value of the environment is in
an argv. A kind of place is one `Kind` record, in `kinds.py`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agh.adapters.launch import Launch
from agh.errors import AghError, PlaceGone, PlaceInvalid
from agh_places import far

CHECK_LIMIT, END_LIMIT = 30.0, 15.0


@dataclass(frozen=True)
class Place:
    """Where to run. `target` is what stands after the kind's name: a host, a container, a partition."""

    name: str  # what the user said
    kind: Kind
    target: str = ""
    dir: str = ""  # the workspace there; empty is the same path as here
    options: tuple[str, ...] = ()  # more arguments for the kind's program
    command: tuple[str, ...] = ()  # the kind's program, where it is not the usual one
    env: tuple[str, ...] = ()  # NAME goes along with its value here, NAME=VALUE is set there
    memory: str = ""  # a limit, as the kind's program understands it: 4G
    cpus: float = 0.0


@dataclass(frozen=True)
class Kind:
    """A way to run something elsewhere with its standard streams here."""

    name: str
    command: tuple[str, ...]
    usage: str
    read: Callable[[str], dict[str, str]]  # an address into fields of Place; ValueError says what is wrong
    wire: Callable[[Place, Launch, Sequence[str]], list[str]]  # the argv that runs a command there
    check: Callable[[Place], tuple[list[str], str]]  # a command, and what it prints when the place is there
    end: Callable[[Place, str], list[str]] | None = None  # ends what a session of that id runs there
    limits: Callable[[Place], list[str]] | None = None  # the arguments for memory and cpus
    crosses: tuple[str, ...] = ()  # names in the environment here that are the same there
    farewell: str = ""  # shell words for the far side to end with: the wire may be all that held the place
    gone: str = ""  # what its program says when there is no such place; empty: the far side says goodbye

    @property
    def is_far(self) -> bool:
        """Whether what runs there is out of the leash's reach: then the far side watches the wire."""
        return not self.gone


_KEYS: dict[str, type | tuple[type, ...]] = {
    "on": str,
    "dir": str,
    "options": list,
    "command": list,
    "env": list,
    "memory": str,
    "cpus": (int, float),
}


def find(name: str, named: Mapping[str, Mapping[str, Any]]) -> Place | None:
    """The place that is meant; None when it is no name and no kind of ours."""
    if name not in named:
        return _read(name, name, {})
    given = dict(named[name])
    where = f"places.{name}"
    for key, value in given.items():
        if key not in _KEYS:
            raise PlaceInvalid(where, f"unknown key {key!r}; known are {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            raise PlaceInvalid(where, f"{key} cannot be {value!r}")
        if isinstance(value, list):
            if not all(isinstance(one, str) and one for one in value):
                raise PlaceInvalid(where, f"{key} is a list of texts")
            given[key] = tuple(value)
    if "on" not in given:
        raise PlaceInvalid(where, 'it needs an address: on = "ssh:HOST"')
    found = _read(name, given.pop("on"), given)
    if found is None:
        raise PlaceInvalid(where, f"on = {named[name]['on']!r} is no address; they look like {_usages()}")
    return found


def take(launch: Launch) -> None:
    """Change the launch so that its agent runs in its place, if that is one of ours."""
    place = find(launch.place, launch.named)
    if place is None:
        return
    kind = place.kind
    launch.elsewhere, launch.cwd = True, place.dir or launch.workspace
    launch.check = lambda: _check(place)
    launch.explain = lambda ended, said: _explain(place, launch, ended, said)
    if kind.is_far:
        launch.preamble = far.preamble(launch, (*kind.crosses, *place.env), kind.farewell)
        launch.argv = kind.wire(place, launch, far.shell(launch.preamble))
        launch.heartbeat = far.HEARTBEAT
    else:
        launch.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")  # cron does not set it
        launch.environ |= far.settings(place.env, launch.environ)
        launch.argv = kind.wire(place, launch, launch.argv)
    argv = kind.end(place, launch.session_id) if kind.end and launch.session_id else []
    if argv:
        launch.clear = launch.finish = lambda: _end(argv)


def limits(place: Place) -> list[str]:
    """The arguments that keep the agent within its memory and processors."""
    return place.kind.limits(place) if place.kind.limits else []


def _read(name: str, address: str, given: dict[str, Any]) -> Place | None:
    from agh_places.kinds import KINDS

    word, _, rest = address.partition(":")
    kind = KINDS.get(word)
    if kind is None:
        return None
    try:
        made = Place(name, kind, **{**kind.read(rest), **given})
    except ValueError as error:
        raise PlaceInvalid(name, f"{error}; it looks like {kind.usage}") from None
    if made.dir and not made.dir.startswith("/"):
        raise PlaceInvalid(name, f"the directory {made.dir} is not an absolute path")
    for one in made.env:
        if not far.NAME.fullmatch(one.partition("=")[0]):
            raise PlaceInvalid(name, f"env: {one.partition('=')[0]!r} is no name of a variable")
    if (made.memory or made.cpus) and kind.limits is None:
        raise PlaceInvalid(name, f"{kind.name} cannot limit memory and cpus")
    return made


def _usages() -> str:
    from agh_places.kinds import KINDS

    return ", ".join(kind.usage for kind in KINDS.values())


def _check(place: Place) -> None:
    argv, expected = place.kind.check(place)
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise PlaceGone(place.name, f"{argv[0]} did not answer within {CHECK_LIMIT:g} s") from None
    except OSError as error:
        raise PlaceGone(place.name, f"{argv[0]}: {error.strerror}") from None
    if done.returncode or expected not in done.stdout:
        said = (done.stderr.strip() or done.stdout.strip() or f"{argv[0]} knows nothing of it").splitlines()
        raise PlaceGone(place.name, said[-1])


def _end(argv: list[str]) -> None:
    """Whether there was something to end, and whether it worked, is not asked: it usually ends by itself."""
    try:
        subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=END_LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired):
        pass


def _explain(place: Place, launch: Launch, ended: Mapping[str, Any], said: str) -> AghError | None:
    if place.kind.is_far:
        return far.explain(place.name, launch, ended, said)
    lines = [line for line in said.splitlines() if place.kind.gone in line]
    return PlaceGone(place.name, lines[-1]) if lines else None
