"""How this agh was installed: the command that adds to its environment, and the files that came along.

Promises: the command is the one of the installer that made the environment (pipx, uv, else pip), and keeps
what that installer was asked for earlier. Never runs it, and never writes.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from agh.core.named_tuple import NamedTuple
from agh.errors import EnvironmentManaged, ExtraMissing, InstallerMissing

DISTRIBUTION = "agh-cli"
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONSTRAINTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constraints.txt")
PIPX_RECORD = "pipx_metadata.json"
UV_RECORD = "uv-receipt.toml"
UV_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL")


class Command(NamedTuple):
    """A command that changes the environment, with the variables it needs beside the user's."""

    argv: list[str]
    variables: Mapping[str, str]

    def __str__(self) -> str:
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*assignments, shlex.join(self.argv)])


def shipped_path(*names: str) -> str:
    """Return the path of a file that comes with agh: in its package, or in the checkout it runs from."""
    path = os.path.join(PACKAGE, "share", *names)
    return path if os.path.exists(path) else os.path.join(os.path.dirname(PACKAGE), *names)


def require_extra(extra: str, command: str, modules: tuple[str, ...]) -> None:
    """Raise ExtraMissing, with the line that adds the extra, unless all its modules are installed."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ExtraMissing(command, ", ".join(missing), hint=extra_line(extra))


def extra_line(extra: str) -> str:
    """Return the line that adds an extra to this installation."""
    try:
        return str(extra_command(extra))
    except EnvironmentManaged:
        return f"pipx install '{DISTRIBUTION}[{extra}]'"
    except InstallerMissing as error:
        return error.hint


def extra_command(extra: str) -> Command:
    """Return the command that adds an extra to this installation."""
    if _has(PIPX_RECORD):
        source = _pipx_source()
        argv = ["pipx", "install", "--force", _with_extra(source, extra)]
        return Command(argv, _pipx_variables())
    if _has(UV_RECORD) and (arguments := _uv_arguments(extra)) is not None:
        return Command(["uv", "tool", "install", *arguments], _uv_variables())
    return Command([*_pip(), f"{DISTRIBUTION}[{extra}]"], {})


def plugin_command(requirement: str) -> Command:
    """Return the command that installs a plugin, by name or from a path, beside this agh.

    Raise EnvironmentManaged if the environment is the system's, InstallerMissing if there is no installer.
    """
    if _has(PIPX_RECORD):
        _require_program("pipx")
        variables = {**_pipx_variables(), "PIP_CONSTRAINT": CONSTRAINTS, "UV_CONSTRAINT": CONSTRAINTS}
        return Command(["pipx", "inject", os.path.basename(sys.prefix), requirement], variables)
    if _has(UV_RECORD) and (arguments := _uv_arguments()) is not None:
        _require_program("uv")
        argv = ["uv", "tool", "install", *arguments, "--with", requirement]
        return Command(argv, {**_uv_variables(), "UV_CONSTRAINT": CONSTRAINTS})
    return Command([*_pip(), "--constraint", CONSTRAINTS, requirement], {})


def _has(record: str) -> bool:
    return os.path.exists(os.path.join(sys.prefix, record))


def _require_program(name: str) -> None:
    if shutil.which(name) is None:
        raise InstallerMissing(sys.prefix, name)


def _pip() -> list[str]:
    """Return pip's command for this environment, or uv's if the environment has no pip."""
    if _has(UV_RECORD) or find_spec("pip") is None:
        if shutil.which("uv") is None:
            raise InstallerMissing(sys.prefix, "pip", hint=f"{shlex.quote(sys.executable)} -m ensurepip")
        return ["uv", "pip", "install", "--python", sys.executable]
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and os.path.exists(marker):
        raise EnvironmentManaged(sys.prefix)
    return [sys.executable, "-m", "pip", "install"]


def _with_extra(requirement: str, extra: str) -> str:
    """Add an extra to a requirement: `agh-cli`, `agh-cli[a]==1`, `./agh.whl`, `agh-cli @ URL`."""
    name, at, url = requirement.partition(" @ ")
    if at:
        return f"{_with_extra(name, extra)} @ {url}"
    is_path = os.sep in name
    end = len(name) if is_path else next((i for i, char in enumerate(name) if char in "<>=!~; "), len(name))
    name, version = name[:end], name[end:]
    if name.endswith("]"):
        name, _, extras = name[:-1].rpartition("[")
        extra = ",".join(sorted({*extras.split(","), extra}))
    return f"{name}[{extra}]{version}"


def _pipx_source() -> str:
    """Return what pipx was asked to install: a name, a path or a URL."""
    try:
        with open(os.path.join(sys.prefix, PIPX_RECORD), encoding="utf-8") as file:
            return str(json.load(file)["main_package"]["package_or_url"] or DISTRIBUTION)
    except (OSError, ValueError, LookupError, TypeError):
        return DISTRIBUTION


def _pipx_variables() -> dict[str, str]:
    """Return PIPX_HOME if this environment is in neither of pipx's usual places nor where it points."""
    home = os.path.dirname(os.path.dirname(sys.prefix))
    usual = {os.path.expanduser(path) for path in ("~/.local/share/pipx", "~/.local/pipx")}
    return {} if home in usual | {os.environ.get("PIPX_HOME")} else {"PIPX_HOME": home}


def _uv_variables() -> dict[str, str]:
    """Return UV_TOOL_DIR if this environment is neither in uv's usual place nor where it points."""
    tools = os.path.dirname(sys.prefix)
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    usual = {os.path.join(data, "uv", "tools"), os.environ.get("UV_TOOL_DIR")}
    return {} if tools in usual else {"UV_TOOL_DIR": tools}


def _uv_arguments(extra: str = "") -> list[str] | None:
    """Return the arguments of `uv tool install` that repeat the receipt, plus an extra of agh.

    Return None if the receipt has what these arguments cannot repeat; `uv pip` leaves it alone.
    """
    try:
        with open(os.path.join(sys.prefix, UV_RECORD), "rb") as file:
            receipt = tomllib.load(file)["tool"]
        own, *others = sorted(receipt["requirements"], key=lambda entry: entry["name"] != DISTRIBUTION)
        arguments = _uv_requirement(own, extra)
        for entry in others:
            option, *rest = _uv_requirement(entry)
            arguments += ["--with-editable", *rest] if option == "--editable" else ["--with", option]
        if "python" in receipt:
            arguments += ["--python", str(receipt["python"])]
        arguments += _uv_indexes(receipt.get("options", {}))
        is_simple = set(receipt) <= {"requirements", "constraints", "python", "entrypoints", "options"}
        is_ours = receipt.get("constraints", []) in ([], [{"name": "agh", "specifier": "<0"}])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return arguments if is_simple and is_ours and own["name"] == DISTRIBUTION else None


def _uv_indexes(options: Mapping[str, Any]) -> list[str]:
    """Return the indexes in the receipt as arguments, unless variables name them already."""
    if set(options) - {"index"}:
        raise ValueError(f"options of another kind: {options}")
    arguments: dict[str, str] = {}
    for index in options.get("index", []):
        if index.get("explicit"):
            raise ValueError(f"an index for certain packages: {index}")
        value = f"{index['name']}={index['url']}" if index.get("name") else str(index["url"])
        arguments[value] = "--default-index" if index.get("default") else "--index"
    if any(os.environ.get(name) for name in UV_INDEX_VARIABLES):
        return []
    return [word for value, option in arguments.items() for word in (option, value)]


def _uv_requirement(entry: Mapping[str, Any], extra: str = "") -> list[str]:
    """Return a requirement of the receipt as arguments; raise ValueError for a kind that is unknown."""
    extras = ",".join(sorted({*entry.get("extras", []), *([extra] if extra else [])}))
    name = f"{entry['name']}[{extras}]" if extras else str(entry["name"])
    source = {key: str(value) for key, value in entry.items() if key not in ("name", "extras")}
    match source:
        case {"specifier": specifier}:
            argument = [f"{name}{specifier}"]
        case {"path": path} | {"directory": path}:
            argument = [f"{name} @ file://{quote(path)}"]
        case {"url": url}:
            argument = [f"{name} @ {url}"]
        case {"editable": path}:
            argument = ["--editable", f"{path}[{extras}]" if extras else path]
        case _:
            argument = [name]
    if len(source) > 1 or (source and argument == [name]):
        raise ValueError(f"a requirement of another kind: {entry}")
    return argument
