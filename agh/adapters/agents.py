"""Agent records: how to start an agent, and how it differs from others. Plain data.

Agents come from the built-in table, from plugins, and from TOML files: `agents/NAME.toml` in the home,
`.agh/agents/NAME.toml` in a workspace. All become the same record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agh.config import PERMISSION_MODES
from agh.errors import AgentInvalid

LIMITS = ("max_cost", "max_turns", "max_time", "max_bytes")
SESSION_META = ("system_prompt", "append_system_prompt", "allowed_tools")


@dataclass(frozen=True)
class AgentRecord:
    """An agent that can be started. `argv[0]` is looked up on PATH."""

    name: str  # its name; an agent defined in a file is named after the file
    argv: tuple[str, ...]  # the program and its arguments
    title: str = ""  # the name shown to users
    package: str = ""  # the npm package to run with npx if the program is not installed
    env: Mapping[str, str] = field(default_factory=dict)  # variables to add to the user's environment
    drop_env: tuple[str, ...] = ()  # variables to hide from the agent
    crosses: tuple[str, ...] = ()  # variables to forward to another place: KEY, PREFIX_*
    login: str = ""  # the command that logs in
    auth_method: str = ""  # the id of the agent's own authentication method to use
    install: str = ""  # the command that installs it
    restore_skip: tuple[str, ...] = ()  # strategies that do not work with it, even if it advertises them
    resume_argv: tuple[str, ...] = ()  # flags that restore a session; {id} is the agent's session id
    quiet_after_load: float = 0.15  # seconds of silence after which a replay is over
    permissions: str = ""  # the permission mode for sessions that set none
    session_meta: Mapping[str, str] = field(default_factory=dict)  # where in `_meta` it expects our options
    limits: Mapping[str, float] = field(default_factory=dict)  # its max_cost, max_turns and so on
    source: str = "built-in"  # where the record came from; set by agh

    def command(self, search: str | None = None) -> list[str] | None:
        """Return the argv to run, with npx if only the package can be run; None if nothing is installed."""
        if find_program(self.argv[0], search):
            return list(self.argv)
        if self.package and find_program("npx", search):
            # Without a prefix npx would run a program from the workspace's node_modules, and read its .npmrc.
            return ["npx", "--prefix", os.path.expanduser("~"), "-y", self.package, *self.argv[1:]]
        return None

    def state(self) -> str:
        """Return "installed", "runnable" (through npx) or "not installed"."""
        command = self.command()
        if command is None:
            return "not installed"
        return "installed" if command[0] == self.argv[0] else "runnable"

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the agent's environment: `base` without `drop_env`, plus `env`."""
        return {**{key: base[key] for key in base if key not in self.drop_env}, **self.env}


_TYPES: dict[str, type | tuple[type, ...]] = {
    "argv": (list, tuple),
    "drop_env": (list, tuple),
    "crosses": (list, tuple),
    "restore_skip": (list, tuple),
    "resume_argv": (list, tuple),
    "env": Mapping,
    "limits": Mapping,
    "session_meta": Mapping,
    "quiet_after_load": (int, float),
}


def parse_agent(fields: Mapping[str, Any], source: str) -> AgentRecord:
    """Check the fields that a plugin or a file defines; raise an error that names the source and the key."""
    allowed = set(AgentRecord.__dataclass_fields__) - {"source"}
    values: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in allowed:
            raise AgentInvalid(source, f"unknown key {key!r}; known are {', '.join(sorted(allowed))}")
        if not isinstance(value, _TYPES.get(key, str)):
            raise AgentInvalid(source, f"{key} cannot be {value!r}")
        values[key] = tuple(map(str, value)) if isinstance(value, list | tuple) else value
    if not values.get("name") or not values.get("argv"):
        raise AgentInvalid(source, "an agent needs a name and an argv")
    for key, value in values.get("env", {}).items():
        if not isinstance(value, str):
            raise AgentInvalid(source, f"env: {key} is not a text; write it in quotes")
    for key, value in values.get("limits", {}).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in LIMITS or not number or not 0 <= value < float("inf"):
            raise AgentInvalid(
                source, f"limits: {key} = {value!r}; known are {', '.join(LIMITS)}, as numbers from 0"
            )
    for key, value in values.get("session_meta", {}).items():
        if key not in SESSION_META or not isinstance(value, str) or not value:
            raise AgentInvalid(
                source,
                f"session_meta: {key} = {value!r}; known are {', '.join(SESSION_META)}, as dotted paths",
            )
    if values.get("permissions", PERMISSION_MODES[0]) not in PERMISSION_MODES:
        raise AgentInvalid(source, f"permissions is one of {', '.join(PERMISSION_MODES)}")
    return AgentRecord(**values, source=source)


def read_agent(path: str) -> AgentRecord:
    """Read an agent from a TOML file and name it after the file."""
    import tomllib

    try:
        with open(path, "rb") as file:
            fields = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise AgentInvalid(path, str(error)) from None
    if "name" in fields:
        raise AgentInvalid(path, "an agent's name is that of its file; take `name` out of it")
    return parse_agent({"name": os.path.basename(path).removesuffix(".toml"), **fields}, path)


def find_program(name: str, search: str | None = None) -> str | None:
    """Return the path of a program on the search path (default: PATH), like shutil.which.

    Importing shutil would cost more than the search.
    """
    folders = [""] if "/" in name else (search or os.environ.get("PATH") or os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
