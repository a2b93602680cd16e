"""`agh skill`: the file that teaches an agent to use agh

The installed file ends with a line that holds a hash of the rest: a file that was not changed by hand is
brought up to date, one that was is left alone unless --force is given.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import click

import agh
from agh.console import terminal
from agh.console.output import output_option, write_json, write_result, write_utf8
from agh.errors import OutputFailed, SkillChanged, Usage
from agh.home import replace_file

FILE, NAME = "SKILL.md", "agh"
# Codex and others read the directory of the open standard; Claude Code has its own.
FOLDERS = {"claude": "~/.claude/skills", "codex": "~/.agents/skills", "agents": "~/.agents/skills"}
_STAMP = re.compile(r"<!-- agh skill ([0-9a-f]{16}) -->\n\Z")


@click.group("skill", epilog="Example:  agh skill install claude")
def skill() -> None:
    """Print or install a skill file that teaches an agent to use agh."""


@skill.command("show", epilog="Example:  agh skill show > SKILL.md")
@output_option()
def show(output: str) -> None:
    """Print the skill file."""
    if output == "human":
        write_utf8(terminal.clean(text()) if terminal.is_terminal() else text())
    else:
        write_json({"skill": {"name": NAME, "version": agh.__version__, "text": text()}})


@skill.command("install", epilog="Example:  agh skill install --dir .claude/skills")
@click.argument("agents", nargs=-1, type=click.Choice(list(FOLDERS)))
@click.option("--dir", "folder", type=click.Path(), help="Install into this directory of skills instead.")
@click.option("--force", is_flag=True, help="Overwrite a file that was changed by hand.")
@output_option()
def install(agents: tuple[str, ...], folder: str | None, force: bool, output: str) -> None:
    """Install the skill where an agent finds it.

    That is ~/.claude/skills for claude, and ~/.agents/skills for codex and others that read it. Updates an
    older version.
    """
    if bool(agents) == bool(folder):
        raise Usage("name an agent, or a directory with --dir", hint="agh skill install claude")
    folders = dict.fromkeys([folder] if folder else [FOLDERS[agent] for agent in agents])
    paths = [os.path.join(os.path.expanduser(str(path)), NAME, FILE) for path in folders]
    before = [state(path) for path in paths]
    if "changed" in before and not force:
        raise SkillChanged(paths[before.index("changed")])
    rows = [{"path": path, "was": was} for path, was in zip(paths, before, strict=True)]
    for path, was in zip(paths, before, strict=True):
        if was != "current":
            _write(path)
    write_result("installed", rows, output, lambda: "\n".join(map(_line, rows)))


def text() -> str:
    """Return the skill file of this version, with its stamp."""
    with open(os.path.join(os.path.dirname(agh.__file__), "skill", FILE), encoding="utf-8") as file:
        body = file.read()
    return f"{body}\n<!-- agh skill {_hash(body)} -->\n"


def state(path: str) -> str:
    """Return the state of an installed file: missing, current, older (but unchanged), or changed by hand."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            content = file.read()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}") from None
    if content == text():
        return "current"
    stamp = _STAMP.search(content)
    return "older" if stamp and _hash(content[: stamp.start() - 1]) == stamp[1] else "changed"


def _write(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, text().encode(), mode=0o644)
    except OSError as error:
        raise OutputFailed(f"{path}: {error.strerror}", hint="agh skill install --dir DIR") from None


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode(errors="replace")).hexdigest()[:16]


def _line(row: dict[str, Any]) -> str:
    words = {"current": "is up to date", "missing": "installed", "older": "updated", "changed": "overwritten"}
    return terminal.clean(f"{row['path']}: {words[row['was']]}")
