"""`agh db shell`"""

from __future__ import annotations

import os
import shutil
import sys

import click

from agh.cli.db.common import find_database
from agh.console.output import remark
from agh.errors import ShellMissing


@click.command("shell", epilog="Example:  echo .schema | agh db shell agh.db")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
def shell_command(file: str | None) -> None:
    """Open FILE in the sqlite3 shell, read-only.

    Without FILE, opens an up-to-date database of all sessions."""
    program = shutil.which("sqlite3")
    if program is None:
        raise ShellMissing()
    path, damaged = find_database(file)
    for error in damaged:
        remark(f"left out: {error}")
    sys.stdout.flush()
    os.execv(program, ["sqlite3", "-readonly", os.path.abspath(path)])
