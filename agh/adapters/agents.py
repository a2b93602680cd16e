"""What agh knows of an agent: how to start it, and its ways. Plain data.

Agents come from the built-in table, from plugins, and from TOML files: `agents/NAME.toml` in the home,
`.agh/agents/NAME.toml` in a workspace. All are the same record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agh.config import PERMISSION_MODES
from agh.errors import AgentInvalid

LIMITS = ("max_cost", "max_turns", "max_time")
SESSION_META = ("system_prompt", "append_system_prompt", "allowed_tools")


@dataclass(frozen=True)
class AgentRecord:
    """An agent that can be started. `argv[0]` is looked up on PATH."""

    name: str  # what it is called; an agent in a file has the file's name
    argv: tuple[str, ...]  # the program and its arguments
    title: str = ""  # its name for people
    package: str = ""  # an npm package that can stand in for a missing program, through npx
    env: Mapping[str, str] = field(default_factory=dict)  # added to the user's environment
    drop_env: tuple[str, ...] = ()  # what the agent must not get
    crosses: tuple[str, ...] = ()  # names in the user's environment that go along elsewhere: KEY, PREFIX_*
    login: str = ""  # the command that logs in
    auth_method: str = ""  # the agent's own method to authenticate with, by its id
    install: str = ""  # the command that installs it
    restore_skip: tuple[str, ...] = ()  # strategies that do not work with it, whatever it advertises
    resume_argv: tuple[str, ...] = ()  # flags that restore by command line; {id} is the agent's session
    quiet_after_load: float = 0.15  # seconds of silence that end a replay
    permissions: str = ""  # the permission mode of its sessions, where they have none of their own
    session_meta: Mapping[str, str] = field(default_factory=dict)  # where in `_meta` it takes our options
    limits: Mapping[str, float] = field(default_factory=dict)  # their max_cost, max_turns, max_time (seconds)
    source: str = "built-in"  # where the record came from; not to be set

    def command(self, search: str | None = None) -> list[str] | None:
        """The argv to run: the installed program, or npx and the package; None when neither is there."""
        if find_program(self.argv[0], search):
            return list(self.argv)
        if self.package and find_program("npx", search):
            return ["npx", "-y", self.package, *self.argv[1:]]
        return None

    def state(self) -> str:
        """installed, runnable (through npx), or not installed."""
        command = self.command()
        if command is None:
            return "not installed"
        return "installed" if command[0] == self.argv[0] else "runnable"

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The user's environment, less what would confuse the agent, and what it needs."""
        return {**{key: base[key] for key in base if key not in self.drop_env}, **self.env}


_KINDS: dict[str, type | tuple[type, ...]] = {
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


def record(given: Mapping[str, Any], source: str) -> AgentRecord:
    """An agent from a plugin or a file; what does not fit is an error that names the source and the key."""
    known = set(AgentRecord.__dataclass_fields__) - {"source"}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            raise AgentInvalid(source, f"unknown key {key!r}; known are {', '.join(sorted(known))}")
        if not isinstance(value, _KINDS.get(key, str)):
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


def from_file(path: str) -> AgentRecord:
    """The agent in a TOML file; its name is the file's."""
    import tomllib

    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise AgentInvalid(path, str(error)) from None
    if "name" in given:
        raise AgentInvalid(path, "an agent's name is that of its file; take `name` out of it")
    return record({"name": os.path.basename(path).removesuffix(".toml"), **given}, path)


def find_program(name: str, search: str | None = None) -> str | None:
    """Where a program is on the search path (default: PATH). shutil.which, without the import of shutil."""
    folders = [""] if "/" in name else (search or os.environ.get("PATH") or os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
