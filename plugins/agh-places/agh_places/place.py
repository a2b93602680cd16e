"""A place, as `--on` or `[places.NAME]` in the settings describes it, and how a launch is redirected to it.

Promises: the same settings give the same argv, without running anything to compute it. Never puts a value of
the environment into an argv. A kind of place is one `Kind` record, in `kinds.py`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agh.adapters.far_command import FarCommand
from agh.adapters.launch import PROBE, Launch
from agh.core.settings.values import seconds
from agh.errors import AghError, PlaceGone, PlaceInvalid
from agh_places import far

CHECK_TIMEOUT, END_TIMEOUT = 30.0, 15.0  # seconds
IDLE_IN_SLOT = 30.0  # seconds; others wait for the slot of an agent that does nothing


@dataclass(frozen=True)
class Place:
    """Where an agent runs. `target` is what follows the kind's name: a host, a container, a partition."""

    name: str  # as the user wrote it
    kind: Kind
    target: str = ""
    dir: str = ""  # the workspace there; empty if its path is the same as here
    options: tuple[str, ...] = ()  # extra arguments for the kind's program
    command: tuple[str, ...] = ()  # replaces the kind's usual program
    env: tuple[str, ...] = ()  # NAME is forwarded with its value here, NAME=VALUE is set there
    memory: str = ""  # a limit, as the kind's program understands it: 4G
    cpus: float = 0.0
    agent_on: str = ""  # with a keeper there: the place where it runs the agent, as that machine names it
    idle_after: float = 0.0  # seconds without a turn until the session ends its agent; 0: the kind's default
    writable_git: bool = False  # whether a container may write a repository's hooks and configuration


@dataclass(frozen=True)
class Kind:
    """A way to run a command elsewhere with its standard streams here."""

    name: str
    command: tuple[str, ...]
    usage: str
    parse_address: Callable[[str], dict[str, str]]  # into fields of Place; raises ValueError with the reason
    build_argv: Callable[[Place, Launch, Sequence[str]], list[str]]  # runs a command there
    build_check: Callable[
        [Place], tuple[list[str], str]
    ]  # a command, and what it prints if the place is there
    build_end_argv: Callable[[Place, str], list[str]] | None = (
        None  # ends what the session of this id runs there
    )
    build_limits: Callable[[Place], list[str]] | None = None  # the arguments that set memory and cpus
    build_host_argv: Callable[[Place, Sequence[str]], list[str]] | None = (
        None  # runs a command there; only a place that stays has an agh and a home of its own
    )
    forwarded: tuple[str, ...] = ()  # environment variables whose values here are also right there
    on_disconnect: str = ""  # a shell command for the far side: frees what only the wire would have freed
    queued_notice: str = ""  # what its program prints if there is no slot yet; empty: it has no slots
    is_below_leash: bool = False  # whether the leash can kill far.sh, because both are on this machine
    unreachable: str = ""  # what its program prints if the place is not there; empty: far.sh sends notices

    @property
    def has_far_side(self) -> bool:
        """Tell whether what runs there is out of the leash's reach, so that `far.sh` must watch the wire."""
        return not self.unreachable


_KEYS: dict[str, type | tuple[type, ...]] = {
    "on": str,
    "dir": str,
    "options": list,
    "command": list,
    "env": list,
    "memory": str,
    "cpus": (int, float),
    "agent_on": str,
    "idle_after": (str, int, float),
    "writable_git": bool,
}
_TYPE_NAMES: dict[type | tuple[type, ...], str] = {
    str: "a string",
    list: "a list of strings",
    (int, float): "a number",
    (str, int, float): "a time span such as 5m",
    bool: "true or false",
}


def find_place(reference: str, named: Mapping[str, Mapping[str, Any]]) -> Place | None:
    """Return the place with this name or address; None if it is neither a name nor an address of ours."""
    if reference not in named:
        return _parse_place(reference, reference, {})
    settings = dict(named[reference])
    table = f"places.{reference}"
    for key, value in settings.items():
        if key not in _KEYS:
            raise PlaceInvalid(table, f"unknown key {key!r}; allowed: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool) != (_KEYS[key] is bool):
            raise PlaceInvalid(table, f"{key} must be {_TYPE_NAMES[_KEYS[key]]}, not {value!r}")
        if isinstance(value, list):
            if not all(isinstance(text, str) and text for text in value):
                raise PlaceInvalid(table, f"{key} must be a list of non-empty strings")
            settings[key] = tuple(value)
    if "idle_after" in settings:
        settings["idle_after"] = _parse_span(table, settings["idle_after"])
    if "on" not in settings:
        raise PlaceInvalid(table, 'it needs an address: on = "ssh:HOST"')
    address = settings.pop("on")
    place = _parse_place(reference, address, settings)
    if place is None:
        raise PlaceInvalid(table, f"on = {address!r} is not an address; addresses look like {_list_usages()}")
    return place


def _parse_span(table: str, value: Any) -> float:
    """Return the seconds of a time span, as the settings have it."""
    try:
        return seconds(value)
    except ValueError as error:
        raise PlaceInvalid(table, f"idle_after: {error}") from None


def redirect_launch(launch: Launch) -> None:
    """Change the launch so that its agent runs in its place, if that is one of ours."""
    place = find_place(launch.place, launch.places)
    if place is None:
        return
    kind = place.kind
    launch.elsewhere, launch.cwd = True, place.dir or launch.workspace
    launch.check = lambda: _check(place, launch)
    launch.explain = lambda exit_status, stderr: _explain_end(place, launch, exit_status, stderr)
    launch.idle_after = place.idle_after or (IDLE_IN_SLOT if kind.queued_notice else None)
    if kind.queued_notice:
        launch.started_notice, launch.queued_notice = far.STARTED.encode(), kind.queued_notice.encode()
    if kind.has_far_side:
        launch.preamble = far.build_preamble(
            launch, (*kind.forwarded, *place.env), kind.on_disconnect, guard=kind.is_below_leash
        )
        launch.argv = kind.build_argv(place, launch, far.build_shell_argv(launch.preamble))
        launch.heartbeat = far.HEARTBEAT
    else:
        launch.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")  # cron does not set it
        launch.environ |= far.resolve_place_env(place.env, launch.environ)
        launch.argv = kind.build_argv(place, launch, launch.argv)
    end_argv = (
        kind.build_end_argv(place, launch.session_id) if kind.build_end_argv and launch.session_id else []
    )
    if end_argv:
        launch.clear = launch.finish = lambda: _run_end(end_argv)


def redirect_command(command: FarCommand) -> None:
    """Fill in how a command of agh is run in its place, if that is one of ours."""
    place = find_place(command.place, command.places)
    if place is None:
        return
    if place.kind.build_host_argv is None:
        raise PlaceInvalid(place.name, f"{place.kind.name} cannot run agh; name a host: ssh:HOST")
    command.directory, command.agent_place = place.dir, place.agent_on
    command.preamble = far.build_command_preamble(command.arguments, place.env, place.dir, os.environ)
    command.argv = place.kind.build_host_argv(place, far.build_shell_argv(command.preamble))


def build_limits(place: Place) -> list[str]:
    """Return the arguments that limit the agent's memory and processors."""
    return place.kind.build_limits(place) if place.kind.build_limits else []


def _parse_place(name: str, address: str, settings: dict[str, Any]) -> Place | None:
    from agh_places.kinds import KINDS

    kind_name, _, rest = address.partition(":")
    kind = KINDS.get(kind_name)
    if kind is None:
        return None
    try:
        place = Place(name, kind, **{**kind.parse_address(rest), **settings})
    except ValueError as error:
        raise PlaceInvalid(name, f"{error}; write it as {kind.usage}") from None
    if place.dir and not place.dir.startswith("/"):
        raise PlaceInvalid(name, f"the directory {place.dir} is not an absolute path")
    for entry in place.env:
        variable = entry.partition("=")[0]
        if not far.VARIABLE_NAME.fullmatch(variable):
            raise PlaceInvalid(name, f"env: {variable!r} is not the name of a variable")
    if (place.memory or place.cpus) and kind.build_limits is None:
        raise PlaceInvalid(name, f"{kind.name} cannot limit memory and cpus")
    return place


def _list_usages() -> str:
    from agh_places.kinds import KINDS

    return ", ".join(kind.usage for kind in KINDS.values())


def _check(place: Place, launch: Launch) -> None:
    """Raise PlaceGone, with the cause, if the place is not there."""
    from agh_places import causes

    argv, expected = place.kind.build_check(place)
    try:
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_TIMEOUT,
            env=None if place.kind.has_far_side else launch.environ,  # as the agent's own program has it
        )
    except subprocess.TimeoutExpired:
        why = f"{argv[0]} did not answer within {CHECK_TIMEOUT:g} s"
        hint = f"try it yourself: {shlex.join(argv)}"
        raise PlaceGone(place.name, why, hint=hint) from None
    except OSError as error:
        raise causes.explain_missing(place, argv[0], error.strerror) from None
    if result.returncode or expected not in result.stdout:
        raise causes.explain_check(place, result.stderr.strip() or result.stdout, argv)


def _run_end(argv: list[str]) -> None:
    """Run the command that ends a session's agent. Ignore failures: it has usually ended by itself."""
    try:
        subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=END_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        pass


def _explain_end(
    place: Place, launch: Launch, exit_status: Mapping[str, Any], stderr: str
) -> AghError | None:
    from agh_places import causes

    if place.kind.has_far_side:
        error = far.explain_end(place.name, launch, exit_status, stderr)
        if not isinstance(error, PlaceGone):
            return error
        if launch.session_id.startswith(PROBE):  # whose usual advice is to run the doctor, which this is
            error.hint = f"try it yourself: {shlex.join(place.kind.build_check(place)[0])}"
        last_lines = "\n".join(stderr.splitlines()[-5:])
        return causes.add_cause(error, place, last_lines) if last_lines.strip() else error
    lines = [line for line in stderr.splitlines() if place.kind.unreachable in line]
    return causes.add_cause(PlaceGone(place.name, lines[-1]), place, lines[-1]) if lines else None


def select_program(place: Place) -> list[str]:
    """Return the program that reaches the place, and its first arguments."""
    return [*(place.command or place.kind.command)]


def check_name(what: str, name: str) -> str:
    """Return the name; raise ValueError if a program could take it for an option or for two words."""
    if not name or name.startswith("-") or any(letter.isspace() or letter == "\0" for letter in name):
        raise ValueError(f"{name!r} is not a valid {what}" if name else f"it has no {what}")
    return name
