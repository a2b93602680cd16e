"""Agent records: how to start an agent, and how it differs from others. Plain data.

Agents come from the built-in table, from plugins, and from TOML files: `agents/NAME.toml` in the home,
`.agh/agents/NAME.toml` in a workspace. All become the same record. A file may extend an agent of the table or
of a plugin, as the files that `agh agent install` writes do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from agh.config import PERMISSION_MODES
from agh.core.named_tuple import NamedTuple
from agh.errors import AgentInvalid
from agh.home import home_path

LIMITS = ("max_cost", "max_turns", "max_time", "max_bytes")
HANDS = ("fs", "terminal")
EMPTY: Mapping[str, Any] = {}
SESSION_META = ("system_prompt", "append_system_prompt", "allowed_tools", "fork_at")


class AgentRecord(NamedTuple):  # a dataclass of so many fields takes 1.5 ms of every start
    """An agent that can be started. `argv[0]` is looked up on PATH."""

    name: str  # its name; an agent defined in a file is named after the file
    argv: tuple[str, ...]  # the program and its arguments
    title: str = ""  # the name shown to users
    extends: str = ""  # in a file: the agent whose fields it starts from; what the file sets replaces them
    package: str = ""  # the npm package to run with npx if the program is not installed
    python_package: str = ""  # the PyPI package to run with uvx if the program is not installed
    catalog: str = ""  # its id in the public registry of ACP agents, if that is not its name
    pin: Mapping[str, Any] = EMPTY  # the version to run, from `agh agent install`
    env: Mapping[str, str] = EMPTY  # variables to add to the user's environment
    drop_env: tuple[str, ...] = ()  # variables to hide from the agent
    crosses: tuple[str, ...] = ()  # variables to forward to another place, such as KEY or PREFIX_*
    login: str = ""  # the command that logs in
    auth_method: str = ""  # the id of the agent's own authentication method to use
    install: str = ""  # the command that installs it
    restore_skip: tuple[str, ...] = ()  # strategies that do not work with it, even if it advertises them
    restore_force: tuple[str, ...] = ()  # strategies to try first, even if it does not advertise them
    resume_argv: tuple[str, ...] = ()  # flags that restore a session; {id} is the agent's session id
    quiet_after_load: float = 0.15  # seconds of silence after which a replay is over
    error_log: str = ""  # a pattern for errors it writes only to stderr; its group is the text of the error
    hands: tuple[str, ...] = HANDS  # what agh offers to do for it: fs, terminal
    permissions: str = ""  # the permission mode for sessions that set none
    session_meta: Mapping[str, str] = EMPTY  # where in `_meta` it expects options
    limits: Mapping[str, float] = EMPTY  # its max_cost, max_turns and so on
    source: str = "built-in"  # where the record came from; set by agh

    def command(self, search: str | None = None) -> list[str] | None:
        """Return the argv to run, with npx or uvx if only the package can be run; None if nothing can be."""
        if self.pin:
            command = [*pinned_program(self.pin), *self.argv[1:]]
            return command if find_program(command[0], search) else None
        if find_program(self.argv[0], search):
            return list(self.argv)
        if self.package and find_program("npx", search):
            return [*npx(self.package), *self.argv[1:]]
        if self.python_package and find_program("uvx", search):
            return [*uvx(self.python_package, self.argv[0]), *self.argv[1:]]
        return None

    def state(self) -> str:
        """Return "installed", "runnable" (through npx or uvx) or "not installed"."""
        command = self.command()
        if command is None:
            return "not installed"
        return "installed" if self.pin or command[0] == self.argv[0] else "runnable"

    def npm_package(self) -> str:
        """Return the npm package that npx can run, with its version if that is pinned; or nothing."""
        return str(self.pin["package"]) if self.pin.get("via") == "npx" else self.package

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the agent's environment: `base` without `drop_env`, plus `env`."""
        return {**{key: base[key] for key in base if key not in self.drop_env}, **self.env}


def npx(package: str, command: str = "") -> list[str]:
    """Return the start of an argv that runs a npm package, or one of its commands."""
    # Without a prefix npx would run a program from the workspace's node_modules, and read its .npmrc.
    start = ["npx", "--prefix", os.path.expanduser("~"), "-y"]
    return [*start, "--package", package, "--", command] if command else [*start, package]


def uvx(package: str, command: str = "") -> list[str]:
    """Return the start of an argv that runs a package from PyPI, or one of its commands."""
    return ["uvx", "--from", package, command] if command else ["uvx", package]


def pinned_program(pin: Mapping[str, Any]) -> list[str]:
    """Return the start of an argv that runs exactly the version that is pinned."""
    if "path" in pin:
        return [str(pin["path"])]
    run = npx if pin["via"] == "npx" else uvx
    return run(str(pin["package"]), str(pin.get("command", "")))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "argv": (list, tuple),
    "drop_env": (list, tuple),
    "crosses": (list, tuple),
    "restore_skip": (list, tuple),
    "restore_force": (list, tuple),
    "resume_argv": (list, tuple),
    "hands": (list, tuple),
    "env": Mapping,
    "limits": Mapping,
    "pin": Mapping,
    "session_meta": Mapping,
    "quiet_after_load": (int, float),
}
_TYPE_NAMES: dict[type | tuple[type, ...], str] = {
    str: "a string",
    (list, tuple): "a list of strings",
    Mapping: "a table",
    (int, float): "a number",
}


def _invalid(source: str, problem: str, *, hint: str | None = None) -> AgentInvalid:
    """Return the error for a record from this source: a file's path, or a plugin."""
    if hint is None:
        in_file = source.endswith(".toml")
        hint = "correct the file, or delete it" if in_file else "update or uninstall the plugin"
    return AgentInvalid(source, problem, hint=hint)


def _check_pattern(source: str, pattern: str) -> None:
    """Refuse an `error_log` that is no pattern, or has no group."""
    if pattern:
        import re  # few agents have one

        try:
            has_group = bool(re.compile(pattern).groups)
        except re.error:
            has_group = False
        if not has_group:
            raise _invalid(source, "error_log must be a regular expression with a capture group")


def parse_agent(fields: Mapping[str, Any], source: str) -> AgentRecord:
    """Check the fields that a plugin or a file defines; raise an error that names the source and the key."""
    allowed = set(AgentRecord._fields) - {"source"}
    values: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in allowed:
            raise _invalid(source, f"unknown key {key!r}; allowed: {', '.join(sorted(allowed))}")
        if not isinstance(value, expected := _TYPES.get(key, str)):
            raise _invalid(source, f"{key} must be {_TYPE_NAMES[expected]}, not {value!r}")
        values[key] = tuple(map(str, value)) if isinstance(value, list | tuple) else value
    if missing := [key for key in ("name", "argv") if not values.get(key)]:
        raise _invalid(source, f"{missing[0]} is missing or empty")
    for key, value in values.get("env", {}).items():
        if not isinstance(value, str):
            raise _invalid(source, f"env: {key} is not a string; write it in quotes")
    _check_pattern(source, values.get("error_log", ""))
    for key, value in values.get("limits", {}).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in LIMITS or not number or not 0 <= value < float("inf"):
            raise _invalid(
                source,
                f"limits: {key} = {value!r}; the keys are {', '.join(LIMITS)}, "
                "and each value must be a number, 0 or more",
            )
    for key, value in values.get("session_meta", {}).items():
        if key not in SESSION_META or not isinstance(value, str) or not value:
            raise _invalid(
                source,
                f"session_meta: {key} = {value!r}; the keys are {', '.join(SESSION_META)}, "
                "and each value must be a dotted path such as systemPrompt.append",
            )
    if unknown := [hand for hand in values.get("hands", ()) if hand not in HANDS]:
        raise _invalid(source, f"hands: unknown value {unknown[0]!r}; allowed: {', '.join(HANDS)}")
    if problem := _find_pin_problem(values.get("pin", {})):
        raise _invalid(source, f"pin: {problem}", hint="reinstall it: agh agent install NAME")
    if values.get("permissions", PERMISSION_MODES[0]) not in PERMISSION_MODES:
        raise _invalid(source, f"permissions must be one of {', '.join(PERMISSION_MODES)}")
    return AgentRecord(**values, source=source)


def _find_pin_problem(pin: Mapping[str, Any]) -> str:
    """Describe what is wrong with a pin; return nothing if it can be run."""
    if not pin:
        return ""
    if pin.get("via") not in ("npx", "uvx", "binary"):
        return f"via = {pin.get('via')!r}; allowed: npx, uvx, binary"
    key = "path" if "path" in pin or pin["via"] == "binary" else "package"
    if not isinstance(pin.get(key), str) or not pin[key] or pin[key].startswith("-"):
        return f"it needs a {key}"
    return "" if isinstance(pin.get("version"), str) else "it needs a version"


def read_agent(path: str, bases: Callable[[], Mapping[str, AgentRecord]] = dict) -> AgentRecord:
    """Read an agent from a TOML file and name it after the file. `bases` returns what it can extend."""
    import tomllib

    try:
        with open(path, "rb") as file:
            fields = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise _invalid(path, str(error)) from None
    if "name" in fields:
        raise _invalid(path, "the agent is named after its file; delete the key `name`")
    name = os.path.basename(path).removesuffix(".toml")
    if not fields.get("extends"):
        return parse_agent({"name": name, **fields}, path)
    base = bases().get(str(fields["extends"]))
    if base is None:
        raise _invalid(path, f"extends: neither agh nor a plugin has an agent called {fields['extends']!r}")
    return _extend(base, parse_agent({"argv": base.argv, "name": name, **fields}, path), fields)


def _extend(base: AgentRecord, own: AgentRecord, fields: Mapping[str, Any]) -> AgentRecord:
    """Return the agent of a file with what the file leaves out taken from `base`; variables add up."""
    values = {key: getattr(own, key) for key in fields}
    values |= {"name": own.name, "source": own.source, "env": {**base.env, **own.env}}
    return base._replace(**values)


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


def is_users_own(agent: AgentRecord) -> bool:
    """Tell whether an agent is defined in the user's home, so that it may loosen the user's settings."""
    return os.path.dirname(agent.source) == os.path.join(home_path(), "agents")
