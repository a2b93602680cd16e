"""Plugins as pip would install them: a module and a `*.dist-info`, in a directory on PYTHONPATH."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent, indent
from typing import Any

import pytest

from tests.support.build import ROOT
from tests.support.program import Agh

# The plugins of this repository, which are installed as well.
OURS = {
    name
    for file in (ROOT / "plugins").glob("*/pyproject.toml")
    for name in tomllib.loads(file.read_text())["project"]["entry-points"]["agh"]
}
HEAD = "import click\nfrom agh.adapters.hookspecs import hookimpl\n\n"


def agents(*records: Mapping[str, Any]) -> str:
    """Return the code of a plugin that offers these agents."""
    calls = "".join(f"    register({dict(record)!r})\n" for record in records)
    return f"{HEAD}@hookimpl\ndef agh_register_agents(register):\n{calls}"


def command(name: str, body: str = "click.echo('done')") -> str:
    """Return the code of a plugin that adds a command."""
    lines = [f"    @group.command({name!r})", "    def run():", "        'From a plugin.'"]
    lines += [indent(body, " " * 8), ""]
    return f"{HEAD}@hookimpl\ndef agh_register_commands(group):\n" + "\n".join(lines)


class Site:
    """A directory of installed packages, and the program that finds them there."""

    def __init__(self, path: Path, cwd: Path) -> None:
        self.path, self.cwd = path, cwd
        self._run = Agh()
        path.mkdir()

    def add(self, name: str, code: str, module: str = "") -> Path:
        """Install a plugin; its module is `agh_NAME` unless the entry point says otherwise."""
        package = f"agh_{name.replace('-', '_')}"
        (self.path / f"{package}.py").write_text(dedent(code))
        return self.register(f"{package}-1.0", f"[agh]\n{name} = {module or package}\n")

    def register(self, distribution: str, entry_points: str) -> Path:
        folder = self.path / f"{distribution}.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_text(entry_points)
        return folder

    def environ(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.path), **more}

    def agh(
        self, *args: object, env: Mapping[str, str] | None = None, **options: Any
    ) -> CompletedProcess[str]:
        return self._run(*args, env=self.environ(**(env or {})), **{"cwd": self.cwd, **options})

    def read(self, *args: object, **options: Any) -> Any:
        """Return what a command prints with `-o json`, out of its wrapper."""
        (value,) = json.loads(self.agh(*args, "-o", "json", **options).stdout).values()
        return value

    def plugins(self, **options: Any) -> dict[str, Any]:
        return {plugin["name"]: plugin for plugin in self.read("plugins", "list", **options)}

    def agents(self, **options: Any) -> dict[str, Any]:
        return {agent["name"]: agent for agent in self.read("agent", "list", **options)}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    cwd = tmp_path / "here"
    cwd.mkdir()
    return Site(tmp_path / "site", cwd)
