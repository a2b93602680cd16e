"""Installing a plugin with the program that installed agh.

Promises: refuses a name or path that cannot be a plugin before anything runs; shows the command that it runs;
then asks a new agh whether the plugin is there. The installer's output goes to stderr.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from typing import Any

from agh.adapters.installation import DISTRIBUTION, Command, plugin_command
from agh.adapters.registry import entry_points
from agh.errors import PluginNotInstalled, Usage

_NAME = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[\w., -]*\])?\s*(?:[<>=!~][^;@]*)?")
_OWN = "agh_cli"


def install_plugin(request: str, show: Callable[[Command], None]) -> list[dict[str, Any]]:
    """Install a plugin by name or path; return what its package offers, as `plugins list` has it.

    `show` is called with the command before it runs.
    """
    requirement, name = _requirement(request)
    _refuse_own(name)
    before = {plugin.name for plugin in entry_points()}
    command = plugin_command(requirement)
    show(command)
    try:
        result = subprocess.run(command.argv, env={**os.environ, **command.variables}, stdout=2)
    except OSError as error:
        raise PluginNotInstalled(request, f"{command.argv[0]}: {error.strerror}") from None
    if result.returncode:
        problem = f"{command.argv[0]} failed with exit {result.returncode}"
        raise PluginNotInstalled(request, problem, hint="its messages above say why")
    rows = [row for row in _list_anew() if _is_from(row, name) or (not name and row["name"] not in before)]
    if not rows:
        raise PluginNotInstalled(request, "the package has no entry point in the group agh")
    return rows


def normalize(name: str) -> str:
    """Return a distribution's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement(request: str) -> tuple[str, str]:
    """Return what to install, and its distribution's name, empty if only a build can tell."""
    if os.sep in request or request == "." or os.path.exists(request):
        path = os.path.abspath(request)
        return path, _name_of_path(request, path)
    match = _NAME.fullmatch(request)
    if match is None:
        raise Usage(f"{request!r} is neither a package name nor a path", hint="agh plugins install --help")
    return request, normalize(match[1])


def _name_of_path(request: str, path: str) -> str:
    file = os.path.basename(path)
    if os.path.isfile(path) and file.endswith((".whl", ".tar.gz")):
        return normalize(file.split("-")[0]) if file.endswith(".whl") else normalize(file.rpartition("-")[0])
    project = os.path.join(path, "pyproject.toml")
    if os.path.isfile(project):
        try:
            with open(project, "rb") as opened:
                return normalize(str(tomllib.load(opened).get("project", {}).get("name", "")))
        except (OSError, ValueError) as error:
            raise Usage(f"{project}: {error}") from None
    if os.path.isfile(os.path.join(path, "setup.py")):
        return ""
    raise Usage(f"{request} is not a package; name a directory with pyproject.toml, a wheel or an sdist")


def _refuse_own(name: str) -> None:
    """Refuse packages whose files agh already has: two packages with the same files break each other."""
    own = {f"agh-{plugin.name}" for plugin in entry_points() if plugin.distribution.startswith(f"{_OWN}-")}
    if name in own:
        raise Usage(f"{name} is already installed: it is part of {DISTRIBUTION}", hint="agh plugins list")
    if name in ("agh", DISTRIBUTION):
        raise Usage(f"{name} is not a plugin", hint="agh plugins list")


def _is_from(row: dict[str, Any], name: str) -> bool:
    """Tell whether a row of `plugins list` is of that distribution."""
    return bool(name) and normalize(row["distribution"].rpartition("-")[0]) == name


def _list_anew() -> list[dict[str, Any]]:
    """Ask a new agh for its plugins: this one has looked already."""
    argv = [sys.executable, "-P", "-m", "agh", "plugins", "list", "-o", "json"]
    result = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    if result.returncode:
        hint = "the plugin may have replaced a package that agh needs; reinstall agh"
        raise PluginNotInstalled("the plugin", "agh no longer starts with it", hint=hint)
    rows: list[dict[str, Any]] = json.loads(result.stdout)["plugins"]
    return rows
